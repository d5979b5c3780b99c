"""The converters of ``MARKDOWN_CONVERTER``, in this process and through the pool."""

from __future__ import annotations

import asyncio

import pytest

from scraper_service.content.convert import make_content
from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from tests.content.pages import options, source, value

PAGE = (
    "<h1>a</h1><p>b <b>c</b><script>x</script><p hidden>d<table><tr><td>1<td>2</table>"
)
IMAGE = "<p><img alt=a src='data:image/png;base64,AAAA'>"


def by_html2text(page, **changes):
    asked = options("markdown", **changes)
    return value(make_content(source(page), asked, None, "html2text"), "markdown")


def test_html2text_gives_its_own_output_of_the_cleaned_tree():
    assert by_html2text(PAGE) == "# a\n\nb **c**\n\n1| 2  \n---|---"


def test_html2text_reads_malformed_urls():
    assert by_html2text("<a href='http://[bad'>c</a>") == r"[c](http://\[bad)"


def test_html2text_leaves_out_base64_images():
    assert "AAAA" not in by_html2text(IMAGE)
    assert "AAAA" in by_html2text(IMAGE, remove_base64_images=False)


@pytest.mark.parametrize(
    ("converter", "expected"), [("native", "| 1 | 2 |"), ("html2text", "1| 2")]
)
def test_the_pool_passes_the_converter_to_its_processes(converter, expected):
    async def convert():
        pool = ConverterPool(1, 60, 1024, 10, converter)
        try:
            return await pool.convert(source(PAGE), options("markdown"), 30)
        finally:
            pool.close()

    assert expected in value(asyncio.run(convert()), "markdown")


def test_an_unknown_converter_is_refused():
    with pytest.raises(ValueError, match="must be native or html2text, got 'pandoc'"):
        ConverterPool(1, 60, 1024, 10, "pandoc")
