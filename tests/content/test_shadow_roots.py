"""Declarative shadow roots are read as a browser draws them."""

from __future__ import annotations

import pytest

from scraper_service.content.html import shadow_roots
from tests.content.pages import convert, markdown, value

LEAD = "<h1>Harbour tours</h1><p>The boats leave from the old pier in summer.</p>"
PAGES = {
    "open": (
        "<tour-card><template shadowrootmode=open><p>Tour of the bay</p></template></tour-card>",
        "Tour of the bay",
    ),
    "closed": (
        "<div><template shadowrootmode=CLOSED><p>Tour of the bay</p></template></div>",
        "Tour of the bay",
    ),
    "an attribute in capitals": (
        "<div><template shadowRootMode=open><p>Tour of the bay</p></template></div>",
        "Tour of the bay",
    ),
    "the old attribute": (
        "<tour-card><template shadowroot=open><p>Tour of the bay</p></template></tour-card>",
        "Tour of the bay",
    ),
    "slots by name, in the order of the root": (
        (
            "<tour-card><template shadowrootmode=open><style>p{color:red}</style>"
            "<h2><slot name=title>No title</slot></h2><p>Price: <slot name=price>free</slot></p>"
            "<slot></slot></template><p>Bring a coat.</p><b slot=title>Seal island</b></tour-card>"
        ),
        "## Seal island Price: free Bring a coat.",
    ),
    "text of the host in a slot": (
        "<tour-card><template shadowrootmode=open>Guide: <slot>none</slot>.</template>Ada</tour-card>",
        "Guide: Ada.",
    ),
    "roots inside each other": (
        (
            "<tour-list><template shadowrootmode=open><tour-card><template shadowrootmode=open>"
            "<h2><slot name=head></slot></h2></template><slot name=first slot=head></slot>"
            "</tour-card><slot></slot></template><p>Behind</p><i slot=first>Inner</i></tour-list>"
        ),
        "## _Inner_ Behind",
    ),
    "a template without the attribute": (
        "<tour-card><template><p>secret</p></template><p>Light</p></tour-card>",
        "Light",
    ),
    "an element without shadow roots": (
        "<ul><template shadowrootmode=open><p>secret</p></template><li>Light</li></ul>",
        "- Light",
    ),
}


@pytest.mark.parametrize("only_main", [False, True])
@pytest.mark.parametrize(("part", "expected"), PAGES.values(), ids=PAGES)
def test_a_shadow_root_is_written_at_the_position_of_its_host(
    part, expected, only_main
):
    page = f"<main>{LEAD}{part}<p>The last boat is back before dark.</p></main>"
    content = convert(page, "markdown", only_main_content=only_main)
    found = " ".join(value(content, "markdown").replace("*", "_").split())
    found = found.replace("__Seal island__", "Seal island")
    lead = "# Harbour tours The boats leave from the old pier in summer. "
    assert found == f"{lead}{expected} The last boat is back before dark."
    assert content.losses == ()


def test_styles_of_a_shadow_root_hide_no_element_outside():
    part = "<a-b><template shadowrootmode=open><div><style>.x{display:none}</style></div></template></a-b>"
    assert "seen" in markdown(f"{part}<p class=x>seen</p>")


def test_children_without_a_slot_are_a_loss():
    page = (
        f"{LEAD}<tour-card><template shadowrootmode=open><p>Shown</p></template>"
        "<p>Old browsers show this.</p></tour-card>"
    )
    content = convert(page, "markdown")
    assert "Old browsers" not in value(content, "markdown")
    [loss] = content.losses
    assert loss["kind"] == "hiddenPart"
    assert loss["texts"] == ["Old browsers show this."]


def test_shadow_roots_beyond_the_limit_are_lost_and_named(monkeypatch):
    monkeypatch.setattr(shadow_roots, "MAX_ROOTS", 1)
    part = "<a-b><template shadowrootmode=open><p>Tour {}</p></template></a-b>"
    content = convert(LEAD + part.format(1) + part.format(2), "markdown")
    assert "Tour 1" in value(content, "markdown")
    assert "Tour 2" not in value(content, "markdown")
    [loss] = content.losses
    assert (loss["kind"], loss["count"], loss["texts"]) == ("shadowRoot", 1, ["Tour 2"])


def test_deep_shadow_roots_are_read():
    page = "<a-b><template shadowrootmode=open><slot></slot>" * 200 + "deep"
    assert "deep" in markdown(page)
