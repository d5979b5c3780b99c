"""Videos, sounds and frames: each is a link in the Markdown, or a loss."""

from __future__ import annotations

import pytest

from tests.content.pages import convert, value

TEXT = "<p>" + "Some words of main content stand here, and more follow. " * 9

LOST = {
    "frame": (
        "<iframe src=https://maps.example/embed title='The way'></iframe>",
        ("frame", ["https://maps.example/embed"], ["The way"]),
    ),
    "lazy frame": (
        "<iframe data-src=//maps.example/embed></iframe>",
        ("frame", ["https://maps.example/embed"], None),
    ),
    "frame that waits for consent": (
        "<iframe data-consent-src=https://maps.example/embed></iframe>",
        ("frame", ["https://maps.example/embed"], None),
    ),
    "frame of the site": (
        "<iframe src=/form.html></iframe>",
        ("frame", ["https://site.example/form.html"], None),
    ),
    "player of sounds": (
        "<iframe src=https://open.spotify.com/embed/x></iframe>",
        ("audio", ["https://open.spotify.com/embed/x"], None),
    ),
    "player of videos": (
        "<iframe src='https://player.twitch.tv/?video=1'></iframe>",
        ("video", ["https://player.twitch.tv/?video=1"], None),
    ),
    "video without controls": (
        "<video id=a aria-label=Talk><source src=/a.mp4></video>",
        ("video", ["https://site.example/a.mp4"], ["Talk"]),
    ),
    "video of a script": (
        "<video controls src='blob:https://site.example/1'></video>",
        ("video", None, None),
    ),
    "sound of a script": ("<audio controls></audio>", ("audio", None, None)),
    "frame of AMP": (
        "<amp-iframe src=https://maps.example/x><amp-img placeholder></amp-img></amp-iframe>",
        ("frame", ["https://maps.example/x"], None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("only_main", [False, True])
@pytest.mark.parametrize(("page", "expected"), LOST.values(), ids=LOST)
def test_a_player_without_a_link_is_a_loss(page, expected, only_main):
    page = f"<main><h1>Title</h1>{TEXT}<div class=box>{page}</div>{TEXT}</main>"
    [loss] = convert(page, only_main_content=only_main).losses
    assert loss["count"] == 1
    assert (loss["kind"], loss.get("urls"), loss.get("texts")) == expected


NOT_LOST = {
    "linked video": "<video controls src=a.mp4></video>",
    "linked frame": "<iframe src=https://www.youtube.com/embed/dQw4w9WgXcQ></iframe>",
    "documents": "<iframe srcdoc='<p>Words' src=https://a.example/x></iframe>",
    "decoration": "<video autoplay muted loop src=a.mp4></video>",
    "tag manager": "<iframe src=https://www.googletagmanager.com/x></iframe>",
    "check": "<iframe src=https://www.google.com/recaptcha/api2/anchor></iframe>",
    "pixel": "<iframe src=https://a.example/x width=1 height=1></iframe>",
    "hidden": "<iframe src=https://a.example/x style='display: none'></iframe>",
    "hidden around": "<div hidden><iframe src=https://a.example/x></iframe></div>",
    "empty": "<iframe src=about:blank></iframe><iframe></iframe><audio></audio>",
}


@pytest.mark.parametrize("page", NOT_LOST.values(), ids=NOT_LOST)
def test_players_without_content_of_their_own_are_no_losses(page):
    assert convert(f"<h1>Title</h1>{TEXT}<div>{page}</div>{TEXT}").losses == ()


def test_players_of_dropped_and_excluded_parts_are_no_losses():
    frame = "<iframe src=https://a.example/x></iframe>"
    page = f"<nav><a href=/>Home</a>{frame}</nav><main><h1>Title</h1>{TEXT}</main>"
    assert convert(page, only_main_content=True).losses == ()
    page = f"<h1>Title</h1>{TEXT}<div class=map>{frame}</div>"
    assert convert(page, exclude_tags=(".map",)).losses == ()
    assert convert(page, exclude_tags=("iframe",)).losses == ()


def test_players_of_amp_are_links():
    page = (
        "<p>a</p><amp-youtube data-videoid=dQw4w9WgXcQ></amp-youtube>"
        "<lite-youtube videoid=aaaaaaaaaaa playlabel=Talk><a href=/>Play</a></lite-youtube>"
        "<amp-video src=v.mp4><div fallback>Too old.</div></amp-video>"
    )
    content = convert(page, "markdown", "links")
    assert value(content, "links") == [
        "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
        "https://www.youtube.com/watch?v=aaaaaaaaaaa",
        "https://site.example/dir/v.mp4",
    ]
    assert "Too old" not in value(content, "markdown")
    assert content.losses == ()
