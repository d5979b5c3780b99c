"""The pages of the quality benchmark, and their conversion by service and html2text."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import html2text
from attrs import frozen
from lxml import html as parser

from scraper_service.content.convert import make_content
from scraper_service.content.markdown import HTML2TEXT, NATIVE
from scraper_service.items import PageSource
from scraper_service.options.spider_arguments import page_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.options.scrape import ScrapeOptions

OWN = "https://page.example/"  # the URL of pages without a known URL
# The elements that stripping + html2text removes. The shares of wanted and unwanted
# snippets are near the published figures (.80/.39 here, .84/.36 there).
_CHROME = ("nav", "header", "footer", "aside", "script", "style", "noscript")
_CHROME_NAMES = frozenset(
    "nav navbar navigation menu sidebar side aside header footer breadcrumb breadcrumbs "
    "cookie cookies share social social-media social-links related ad ads advert widget "
    "modal popup overlay lang-selector".split()
)


@frozen
class Case:
    """A page or PDF file with its known content."""

    #: The page as HTML; empty for a PDF file.
    html: str
    url: str
    #: The kind of the page, or ``pdf``.
    kind: str
    #: The known text.
    truth: str
    #: Snippets that belong to the content.
    wanted: tuple[str, ...] = ()
    #: Snippets that do not belong to the content.
    unwanted: tuple[str, ...] = ()
    #: The PDF file.
    body: bytes = b""


@frozen
class ConvertedPage:
    """The Markdown and the metadata that the service returns for a page."""

    markdown: str
    known: dict[str, Any]


def wcxb_cases(directory: Path) -> Iterator[Case]:
    """Yield the pages of WCXB."""
    for line in (directory / "truth.jsonl").open(encoding="utf-8"):
        row = json.loads(line)
        body = (directory / "html" / f"{row['id']}.html").read_bytes()
        yield Case(
            body.decode(errors="replace"),
            row["url"] or "",
            row["page_type"],
            row["main_content"],
            tuple(row["with"]),
            tuple(row["without"]),
        )


def article_cases(directory: Path) -> Iterator[Case]:
    """Yield the pages of article-extraction-benchmark whose files exist."""
    truth = json.loads((directory / "ground-truth.json").read_bytes())
    for name, row in sorted(truth.items()):
        path = directory / "html" / f"{name}.html.gz"
        if path.exists():
            body = gzip.decompress(path.read_bytes())
        elif path.with_suffix("").exists():
            body = path.with_suffix("").read_bytes()
        else:
            continue
        text = body.decode(errors="replace")
        yield Case(text, row.get("url") or "", "article", row["articleBody"])


def pdf_cases(directory: Path) -> Iterator[Case]:
    """Yield the PDF files that have a text file beside them."""
    for path in sorted(directory.rglob("*.pdf")):
        text = Path(f"{path}.txt")
        if text.exists():
            truth = text.read_bytes().decode("utf-8-sig", "replace")
            if truth.strip():
                yield Case("", path.as_uri(), "pdf", truth, body=path.read_bytes())


def convert_page(html: str, url: str) -> ConvertedPage:
    """Convert a page as the service does, to Markdown of the main content and links."""
    return _convert(html.encode(errors="replace"), url, "text/html; charset=utf-8")


def pdf_markdown(case: Case) -> str:
    """Convert a PDF file as the service does."""
    return _convert(
        case.body, "https://files.example/a.pdf", "application/pdf"
    ).markdown


@functools.cache  # the service creates options once per job
def _options(formats: str, only_main_content: str) -> ScrapeOptions:
    arguments = {"formats": formats, "only_main_content": only_main_content}
    return page_options({"url": OWN, **arguments}).scrape


def _convert(body: bytes, url: str, content_type: str) -> ConvertedPage:
    url = url or OWN
    source = PageSource(
        url=url,
        status=200,
        body=body,
        content_type=content_type,
        find_links=False,
    )
    content = make_content(source, _options("markdown,links", "true"))
    made = content.values.get("markdown")
    return ConvertedPage(json.loads(made) if made else "", dict(content.known))


def whole_markdown(html: str, url: str, writer: str = NATIVE) -> str:
    """Convert a whole page, for the scorers of fidelity.

    An empty URL leaves relative URLs unchanged: the scorers compare them.
    """
    source = PageSource(
        url=url,
        status=200,
        body=html.encode(errors="replace"),
        content_type="text/html; charset=utf-8",
        find_links=False,
    )
    content = make_content(source, _options("markdown", "false"), converter=writer)
    return str(json.loads(content.values["markdown"]))


def whole_html2text(html: str, url: str) -> str:
    """Convert a whole page with the writer html2text, which gets the same cleaned tree."""
    return whole_markdown(html, url, HTML2TEXT)


def metadata_facts(html: str, url: str) -> dict[str, Any]:
    """Return title, author, date, description and site name, for the metadata scorer."""
    known = convert_page(html, url).known
    return {
        "title": known.get("headline") or known.get("title"),
        "author": known.get("author"),
        "date": known.get("published_time"),
        "description": known.get("description"),
        "sitename": known.get("og_site_name"),
    }


def stripped_html2text(html: str, _url: str) -> str:
    """Remove chrome by tags and class names, then convert with html2text."""
    tree = parser.document_fromstring(html.encode(errors="replace"))
    for element in list(tree.iter(*_CHROME)):
        if element.getparent() is not None:
            element.drop_tree()
    for element in tree.xpath("//body//*[@class or @id]"):
        names = f"{element.get('class', '')} {element.get('id', '')}".lower().split()
        if element.getparent() is not None and not _CHROME_NAMES.isdisjoint(names):
            element.drop_tree()
    converter = html2text.HTML2Text()
    converter.body_width = 0
    return str(converter.handle(parser.tostring(tree, encoding="unicode")))
