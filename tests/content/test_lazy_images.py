"""Images whose files scripts, style sheets or browsers choose, and images that are lost."""

from __future__ import annotations

import pytest

from scraper_service.content.convert import make_content
from tests.content.pages import convert, options, source, value

BASE = "https://site.example/dir/"
WAITING = "<img alt=A src='data:image/gif;base64,R0lGODlhAQABAAAAACw='"

FOUND = {
    "source only": "<picture><source srcset=a.png></picture>",
    "source beside an empty image": "<picture><source srcset='a.png 2x'><img alt=A></picture>",
    "source beside a placeholder": (
        f"<picture><source data-srcset='b.png 1x, a.png 2x'>{WAITING}></picture>"
    ),
    "srcset of a placeholder": f"{WAITING} srcset='a.png 2x, b.png 1x'>",
    "any attribute": f"{WAITING} data-large-file=a.png>",
    "any set of files": f"{WAITING} data-my-srcset='a.png 2x'>",
    "attribute with JSON": f"{WAITING} data-x='{{\"{BASE}a.png\":[5,5]}}'>",
    "noscript behind a wrapper": f"<span>{WAITING}></span><noscript><img src=a.png></noscript>",
    "noscript before a link": f"<noscript><img src=a.png></noscript><a href=x>{WAITING}></a>",
    "noscript before": f"<noscript><img src=a.png></noscript>{WAITING}>",
    "picture and noscript": (
        f"<figure><picture>{WAITING}></picture><noscript><picture><img src=a.png></picture>"
        "</noscript></figure>"
    ),
    "noscript with the only image": (
        "<div class=lazy></div><noscript><img src=a.png alt=A></noscript>"
    ),
    "amp-img": "<amp-img src=a.png><noscript><img src=a.png></noscript></amp-img>",
    "amp-anim": "<amp-anim src=a.png alt=A></amp-anim>",
    "background": (
        "<div role=img aria-label=A style=\"color: red; background-image: url('a.png')\"></div>"
    ),
    "photo in an SVG": "<svg aria-label=A><image xlink:href=a.png /></svg>",
    "file in the memory of a browser": "<img alt=A src=blob:https://site.example/1 data-x=a.png>",
    "lazy background": "<div role=img aria-label=A data-bg=a.png></div>",
}  # fmt: skip


@pytest.mark.parametrize("page", FOUND.values(), ids=FOUND)
def test_an_image_has_its_file_in_all_formats(page):
    content = convert(f"<p>Words</p>{page}", "markdown", "images", "html")
    text = value(content, "markdown")
    assert text.count(f"]({BASE}a.png)") == 1
    assert text.count("![") == 1
    assert "Base64" not in text
    assert f"{BASE}a.png" in value(content, "images")
    assert f'src="{BASE}a.png"' in value(content, "html")
    assert content.losses == ()


def test_counters_in_noscript_are_no_images():
    page = (
        "<p>a</p><noscript><img src=p.gif alt=Pixel width=1 height=1></noscript><p>b</p>"
        "<noscript><img src=q.gif alt=Pixel style='display:none'></noscript>"
    )
    assert value(convert(page), "markdown") == "a\n\nb"


PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9"
LOST = {
    "data with a text": (f"<img alt='A barn' src='{PNG}'>", None),
    "data without a text": (f"<img src='{PNG}'>", None),
    "drawing in data": ("<img alt=B src='data:image/svg+xml,%3Csvg%3E%3Cpath/%3E'>", None),
    "no file": ("<img alt='A barn'>", ["A barn"]),
    "background of a class": (
        "<style>.c {background: url(a)}</style><div role=img aria-label='A red barn' class=c></div>",
        ["A red barn"],
    ),
    "background outside of the page": (
        "<div role=img aria-label='A red barn'></div>",
        ["A red barn"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("converter", ["native", "html2text"])
@pytest.mark.parametrize(("page", "texts"), LOST.values(), ids=LOST)
def test_an_image_without_a_file_is_a_loss(page, texts, converter):
    if converter == "html2text" and "data:" not in page:
        pytest.skip("html2text writes such images")
    page = f"<p>Words</p>{page}"
    [loss] = make_content(source(page), options(), converter=converter).losses
    assert (loss["kind"], loss["count"], loss.get("texts")) == ("image", 1, texts)


BLANK = {
    "a pixel": "<img alt=A src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>",
    "a PNG of one pixel": (
        "<img src='data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ'>"
    ),
    "an empty drawing": (
        "<img src=\"data:image/svg+xml,%3Csvg viewBox='0 0 3 2'%3E%3C/svg%3E\">"
    ),
}


@pytest.mark.parametrize("page", BLANK.values(), ids=BLANK)
def test_placeholders_are_no_losses(page):
    assert convert(f"<p>Words {page}").losses == ()


def test_data_that_stays_is_no_loss():
    content = convert(f"<p><img alt=A src='{PNG}'>", remove_base64_images=False)
    assert value(content, "markdown") == f"![A]({PNG})"
    assert content.losses == ()
