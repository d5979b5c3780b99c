"""The text files that tell language models of a site (interface document, 16.1).

Runs in the converter pool.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from attrs import evolve, frozen

from scraper_service.content.stored_pages import StoredPage, read_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = 200  # characters of a page
FULL_TEXT = 20_000_000  # characters of all pages
LEFT_OUT = "(The text of this page is left out: the file has its full size.)"

# What Markdown has beside words, at the place where a paragraph begins.
_NO_PARAGRAPH = re.compile(r"(#|\||!\[|```|~~~|<|:?-{3,}|={3,}|\*{3}|\[\^)")
_MARKER = re.compile(r"^(?:>\s*|[-*+]\s+|\d+[.)]\s+)+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*\*|__|\*|`|~~)(?=\S)(.+?)(?<=\S)\1")
_SENTENCE = re.compile(r"(.+?[.!?。！？])(?=\s|$|[^\x00-\x7f])", re.DOTALL)  # noqa: RUF001
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


@frozen
class LlmsPage:
    """A page as the files list it; ``markdown`` is None where it is not wanted."""

    url: str
    title: str
    description: str
    markdown: str | None
    error: str | None


def llms_pages(bodies: Sequence[bytes], full: bool) -> list[LlmsPage]:
    """Return the pages whose JSON objects these are; their text if it is to be ``full``."""
    return [_page(page, full) for page in read_pages(bodies)]


def llms_json(
    url: str, pages: Sequence[LlmsPage], full: bool, warning: str | None = None
) -> bytes:
    """Return the members of the answer as a JSON object."""
    data = {"llmstxt": llms_text(url, pages)}
    if full:
        data["llmsfulltxt"] = llms_full_text(url, pages)
    members = {"data": data} | ({"warning": warning} if warning else {})
    return json.dumps(members, ensure_ascii=False).encode()


def llms_text(url: str, pages: Sequence[LlmsPage]) -> str:
    """Return the list of pages."""
    lines = [
        f"- [{_label(page.title)}]({page.url})"
        + (f": {page.description}" if page.description else "")
        for page in pages
    ]
    return "\n".join([f"# {url} llms.txt", "", *lines]) + "\n"


def llms_full_text(url: str, pages: Sequence[LlmsPage]) -> str:
    """Return the texts of the pages, each behind its number and title."""
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
    title = page.title or (_plain(heading[1]) if heading else "") or _name(page.url)
    return LlmsPage(
        page.url,
        title,
        _cut(page.description or first_sentence(markdown)),
        markdown if full else None,
        page.error,
    )


def first_sentence(markdown: str) -> str:
    """Return the first sentence of the first paragraph of a text, empty for none."""
    for block in re.split(r"\n\s*\n", markdown):
        text = block.strip()
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
    """Return a text of Markdown as it is read."""
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
    """Return what the address itself calls the page."""
    parts = urlsplit(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return last or parts.hostname or url


def without_text(pages: Sequence[LlmsPage]) -> list[LlmsPage]:
    """Return pages without their texts."""
    return [evolve(page, markdown=None) for page in pages]
