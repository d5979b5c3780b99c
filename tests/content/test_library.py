"""Conversion as a function call, as another program makes it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import scraper_service
from scraper_service import convert
from scraper_service.errors import ConversionFailed, InvalidOptions
from tests.content.pdfmaker import pdf

PAGE = """<!doctype html><title>Lamps</title><meta name=author content="Ada">
<nav><a href=/>Home</a> <a href=/all>All lamps</a></nav>
<main><h1>A lamp</h1><p>It is bright, and it <a href=more>costs</a> little: we made it of
old bottles, by hand, in a small workshop by the sea, and every one is different.</p>
<p>Price: $5.50</p><img src=lamp.png alt=lamp></main>"""


def test_a_page_has_markdown_links_and_metadata_by_default():
    found = convert(PAGE, url="https://shop.example/lamps/")
    assert found.markdown.startswith("# A lamp\n\nIt is bright")
    assert "[costs](https://shop.example/lamps/more)" in found.markdown
    assert "All lamps" not in found.markdown
    assert found.links == ["https://shop.example/lamps/more"]
    assert found.metadata["title"] == "Lamps"
    assert found.metadata["author"] == "Ada"
    assert found.html is None
    assert found.data is None


def test_bytes_are_read_by_their_own_character_set():
    text = "<meta charset=windows-1251><p>Привет, мир и все, кто читает</p>"
    assert "Привет" in convert(text.encode("windows-1251")).markdown
    latin = convert(
        "<p>déjà vu</p>".encode("latin-1"), content_type="text/html; charset=latin-1"
    )
    assert latin.markdown == "déjà vu"


def test_the_library_has_the_options_and_formats_of_the_api():
    found = convert(
        PAGE,
        url="https://shop.example/",
        formats=["markdown", "rawHtml", "images", "summary"],
        only_main_content=False,
        exclude_tags=["h1"],
    )
    assert "All lamps" in found.markdown
    assert "A lamp" not in found.markdown
    assert found.images == ["https://shop.example/lamp.png"]
    assert found.values["raw_html"].startswith("<!doctype html>")
    assert found.values["summary"]


def test_data_come_from_a_schema_or_a_prompt():
    schema = {
        "type": "object",
        "properties": {"price": {"type": "number"}, "sku": {"type": "string"}},
        "required": ["price", "sku"],
    }
    found = convert(PAGE, formats=[], schema=schema)
    assert found.data == {"price": 5.5, "sku": None}
    assert any("sku" in warning for warning in found.warnings)
    assert convert(PAGE, prompt="the price").data == {"price": 5.5}


def test_values_are_selected_with_parsel():
    page = "<nav>Menu</nav><h1>A <b>lamp</b></h1><a href='/a'>more</a>"
    cleaned = convert(page, url="https://example.org", formats=["html"])
    assert cleaned.selector.css("h1 ::text").getall() == ["A ", "lamp"]
    assert cleaned.selector.xpath("//nav").getall() == []
    assert cleaned.selector is cleaned.selector
    raw = convert(page, formats=["html", "rawHtml"])
    assert raw.selector.css("nav::text").get() == "Menu"
    with pytest.raises(LookupError, match="needs the format html or raw_html"):
        _ = convert(page).selector


def test_other_kinds_of_documents_are_read():
    found = convert(pdf([[(72, 700, 12, "Hello from a file")]]))
    assert "Hello from a file" in found.markdown
    assert found.metadata["num_pages"] == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"formats": ["screenshot"]}, "formats.0: screenshot needs the service"),
        ({"formats": ["nonsense"]}, "nonsense"),
        ({"only_main": False}, "only_main: is no option"),
        ({"selectors": {}}, "options are exclude_tags, formats, include_tags, only_"),
        ({"selectors": {}}, "parsers, prompt, remove_base64_images, schema"),
        ({"url": "ftp://x.example"}, "url: "),
        ({"schema": 3}, "schema: must be a JSON Schema"),
        ({"include_tags": ["[["]}, "include_tags.0: "),
        ({"formats": "markdown"}, "formats: must be a list such as ['markdown']"),
        ({"formats": {"type": "html"}}, "formats: must be a list"),
        ({"formats": None}, "formats: must be a list"),
        ({"url": 5}, "url: must be a str, got 5"),
        ({"content_type": None}, "content_type: must be a str, got None"),
    ],
)
def test_a_wrong_option_is_named(options, named):
    with pytest.raises(InvalidOptions) as caught:
        convert(PAGE, **options)
    assert named in str(caught.value)


@pytest.mark.parametrize("content", [None, 5, ["<p>x</p>"]])
def test_content_of_another_type_is_named(content):
    with pytest.raises(InvalidOptions, match=r"^content: must be bytes or str, got"):
        convert(content)


LINKED = "<nav><a href='/a'>A</a></nav><main><h1>Title</h1>" + "<p>Some text.</p>" * 20


def test_links_that_the_main_content_lacks_are_a_warning():
    options = {"url": "http://shop.example/", "formats": ["links"]}
    found = convert(f"{LINKED}</main>", **options)
    assert found.links == []
    assert "onlyMainContent" in found.warnings[0]
    found = convert(f"{LINKED}<p><a href='/b'>B</a></p></main>", **options)
    assert (found.links, found.warnings) == (["http://shop.example/b"], ())
    found = convert(f"{LINKED}</main>", only_main_content=False, **options)
    assert (found.links, found.warnings) == (["http://shop.example/a"], ())
    without = convert("<main><h1>T</h1><p><a href='#top'>Top</a></p></main>", **options)
    assert (without.links, without.warnings) == ([], ())


def test_an_error_names_its_option_once():
    with pytest.raises(
        InvalidOptions, match=r"^only_main_content must be of type boolean"
    ):
        convert(PAGE, only_main_content="yes")


def test_an_unreadable_document_is_an_error_with_a_code():
    with pytest.raises(ConversionFailed) as caught:
        convert(bytes(range(256)) * 20)
    assert caught.value.code == "SCRAPE_UNSUPPORTED_FILE_ERROR"


def test_no_framework_is_loaded_and_unknown_names_are_errors():
    program = (
        "import sys; from scraper_service import convert; convert('<p>x</p>');"
        "print({'scrapy', 'twisted', 'klein'} & {m.split('.')[0] for m in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = scraper_service.nonsense


class _Unprintable:
    def __repr__(self) -> str:
        raise ValueError


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [_nested(5000), _Unprintable(), 10**5000], ids=["deep", "object", "long"]
)
@pytest.mark.parametrize(
    "name", ["url", "content_type", "formats", "schema", "prompt", "only_main_content"]
)
def test_a_value_that_cannot_be_printed_or_walked_is_refused(name, value):
    with pytest.raises(InvalidOptions, match=name):
        convert("<p>x</p>", **{name: value})
