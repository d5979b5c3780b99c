"""Writes llms.txt and llms-full.txt of a site from its pages.

Runs in the converter pool.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from attrs import evolve, frozen

from scraper_service.content.stored_pages import StoredPage, read_pages
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = 200  # characters of a page's description
MAX_TEXT = 50_000  # characters of a page that are searched for a description
MAX_PARAGRAPH = 2_000  # characters of a paragraph or heading that are read
FULL_TEXT = 20_000_000  # characters of all pages
LEFT_OUT = "(The text of this page is left out: the file has its full size.)"

# Beginnings of Markdown blocks that are no paragraphs.
_NO_PARAGRAPH = re.compile(r"(#|\||!\[|```|~~~|<|:?-{3,}|={3,}|\*{3}|\[\^)")
_MARKER = re.compile(r"^(?:>\s*|[-*+]\s+|\d+[.)]\s+)+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*\*|__|\*|`|~~)(?=\S)(.+?)(?<=\S)\1")
_SENTENCE = re.compile(r"(.+?[.!?。！？])(?=\s|$|[^\x00-\x7f])", re.DOTALL)  # noqa: RUF001
_HEADING = re.compile(r"^#{1,6}\s+(.*[^#\s])", re.MULTILINE)


@frozen
class LlmsPage:
    """A page as the files list it."""

    url: str
    title: str
    description: str
    #: None unless the full text is requested.
    markdown: str | None
    error: str | None


def llms_pages(bodies: Sequence[bytes], full: bool) -> list[LlmsPage]:
    """Return the pages of these JSON objects, with their Markdown if ``full``."""
    return [_page(page, full) for page in read_pages(bodies)]


def llms_json(
    url: str, pages: Sequence[LlmsPage], full: bool, warning: str | None = None
) -> bytes:
    """Return the result as a JSON object; ``full`` adds llms-full.txt."""
    data = {"llmstxt": llms_text(url, pages)}
    if full:
        data["llmsfulltxt"] = llms_full_text(url, pages)
    members = {"data": data} | ({"warning": warning} if warning else {})
    return json.dumps(members, ensure_ascii=False).encode()


def llms_text(url: str, pages: Sequence[LlmsPage]) -> str:
    """Return llms.txt: a list of links to the pages."""
    lines = [
        f"- [{_label(page.title)}]({page.url})"
        + (f": {page.description}" if page.description else "")
        for page in pages
    ]
    return "\n".join([f"# {url} llms.txt", "", *lines]) + "\n"


def llms_full_text(url: str, pages: Sequence[LlmsPage]) -> str:
    """Return llms-full.txt: the Markdown of each page after its number and title."""
    parts, room = [f"# {url} llms-full.txt\n"], FULL_TEXT
    for number, page in enumerate(pages, 1):
        text = page.markdown or ""
        if len(text) > room:
            text = LEFT_OUT
        else:
            room -= len(text)
        parts.append(f"<|page-{number}|>\n## {page.title}\n\n{text.strip()}\n")
    return "\n".join(parts)


def _page(page: StoredPage, full: bool) -> LlmsPage:
    markdown = page.markdown or ""
    heading = _HEADING.search(markdown)
    shown = _plain(heading[1][:MAX_PARAGRAPH]) if heading else ""
    title = page.title or shown or _name(page.url)
    return LlmsPage(
        page.url,
        title,
        _cut(page.description or first_sentence(markdown)),
        markdown if full else None,
        page.error,
    )


def first_sentence(markdown: str) -> str:
    """Return the first sentence in the paragraphs of a text; empty without any."""
    for block in re.split(r"\n\s*\n", markdown[:MAX_TEXT]):
        text = block.strip()[:MAX_PARAGRAPH]
        if _NO_PARAGRAPH.match(text) and not text.startswith("[^"):
            continue
        text = _plain(_MARKER.sub("", text))
        sentence = _SENTENCE.match(text)
        if sentence and len(sentence[1].split()) > 2:
            return sentence[1]
        if len(text.split()) > 5:
            return text
    return ""


def _plain(text: str) -> str:
    """Return a Markdown text without links and emphasis marks."""
    text = _LINK.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", text)
    return " ".join(text.split())


def _cut(text: str) -> str:
    if len(text) <= DESCRIPTION:
        return text
    whole = text[: DESCRIPTION - 1]
    return (whole.rpartition(" ")[0] or whole).rstrip(",;:- ") + "…"


def _label(title: str) -> str:
    return title.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _name(url: str) -> str:
    """Return a name of the page from its URL."""
    parts = url_parts(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return last or parts.hostname or url


def without_text(pages: Sequence[LlmsPage]) -> list[LlmsPage]:
    """Return the pages without their Markdown."""
    return [evolve(page, markdown=None) for page in pages]
