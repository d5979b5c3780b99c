"""The text of frames: inside each other, of other sites, hidden, stuck, large."""

from __future__ import annotations

import pytest


def test_frames_are_part_of_the_page_and_can_be_chosen(page):
    found = page("/frames", waitFor=1, onlyMainContent=False)
    for host in ("127.0.0.2", "127.0.0.3"):
        assert f"Inside a frame of **{host}**" in found["markdown"]
    only = page("/frames", waitFor=1, includeTags=["iframe"])["markdown"]
    assert "Inside a frame" in only
    assert "Outside" not in only


@pytest.mark.full
def test_frames_within_frames_are_read_five_deep(page, app):
    found = page(
        "/nest", waitFor=300, onlyMainContent=False, formats=["markdown", "rawHtml"]
    )
    hosts = ("127.0.0.2", "127.0.0.3")
    for level in range(6):
        assert f"Level {level} of {hosts[level % 2]}" in found["markdown"]
    assert "Level 6" not in found["markdown"]
    assert "In a tree of a frame." in found["markdown"]
    assert "Inside that." in found["markdown"]
    # The page itself is as it was: nothing of ours is on its elements.
    assert "scraper-" not in found["rawHtml"]


def test_links_in_frames_are_relative_to_the_url_of_the_frame(page, app):
    found = page("/frames", waitFor=1, onlyMainContent=False, formats=["links"])
    assert found["links"] == [app.url("/link"), f"{app.other}/link"]


@pytest.mark.slow
def test_stuck_frames_and_hidden_frames_are_left_out(page):
    found = page("/stuck", waitFor=1, onlyMainContent=False)
    assert "Can be read." in found["markdown"]
    assert found["markdown"].count("Inside a frame") == 1
    assert "did not answer in time" in found["warning"]


def test_a_frame_that_is_too_large_is_left_out_with_a_warning(page):
    found = page("/large", waitFor=1, onlyMainContent=False)
    assert "A small one." in found["markdown"]
    assert len(found["markdown"]) < 1000
    assert "more than 500000 characters" in found["warning"]
