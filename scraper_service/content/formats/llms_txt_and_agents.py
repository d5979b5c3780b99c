"""What jobs make of the pages that they have read: llms.txt files, and notes of agents.

llms.txt and llms-full.txt list the pages of a site. A long page becomes notes of an agent: the
sentences that share words with the question. Runs in the converter pool.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from attrs import evolve, field, frozen

from scraper_service.content.page_urls import without_fragment
from scraper_service.content.stored_pages import StoredPage, read_pages
from scraper_service.content.words import (
    COMMON,
    SearchWords,
    language_code,
    may_stand,
    sentences,
    stems,
    tokens_of,
)
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = 200  # characters of a page's description
MAX_TEXT = 10_000  # characters of a page that are searched for a description
MAX_PARAGRAPH = 2_000  # characters of a paragraph or heading that are read
FULL_TEXT = 20_000_000  # characters of all pages
LEFT_OUT = "(The text of this page is left out: the file has its full size.)"

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*\*|__|\*|`|~~)(?=\S)(.+?)(?<=\S)\1")
_STOPS = ".!?\u3002\uff01\uff1f"
_OPEN = ("?", "...", "\u2026")  # ends of sentences that state nothing
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
    parts, left = [f"# {url} llms-full.txt\n"], FULL_TEXT
    for number, page in enumerate(pages, 1):
        text = page.markdown or ""
        if len(text) > left:
            text = LEFT_OUT
        else:
            left -= len(text)
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
    found = (each.text for each in sentences(markdown[:MAX_TEXT]))
    return next((text for text in found if not _is_label(text)), "")


def _is_label(text: str) -> bool:
    """Return True for a few words without a stop, such as an entry of a menu."""
    return len(text.split()) <= (2 if text[-1] in _STOPS else 5) and not may_stand(text)


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


# -- pages of an agent -------------------------------------------------------------------

KEPT = 60  # sentences of one page
WHOLE = 6000  # characters of a page that is kept as it is; longer ones become notes
MAX_LINKS = 200  # of one page
MAX_DATA = 4000  # characters of the data of a page in a prompt


def sentences_for(page: StoredPage, query: str) -> list[str]:
    """Return the sentences of a page that share most words with ``query``, in order."""
    language = language_code(page.language) or "en"
    wanted = _stems_of(query, language)
    found = [each.text for each in sentences(page.markdown or "")]
    usable = [x for x in found if may_stand(x) and not x.endswith(_OPEN)]
    shared = [len(_stems_of(text, language) & wanted) for text in usable]
    order = sorted(range(len(usable)), key=lambda n: (-shared[n], n))
    return [usable[n] for n in sorted(order[:KEPT])]


def _stems_of(text: str, language: str) -> frozenset[str]:
    """Return the stems of the words of a text, without common words."""
    words = [word for word in tokens_of(text) if word not in COMMON and len(word) > 1]
    return frozenset(stems(words, language))


@frozen(kw_only=True)
class AgentPage:
    """A page of an agent."""

    #: The requested URL.
    url: str
    #: The URL after redirects.
    final_url: str
    title: str
    description: str
    icon: str | None
    scrape_id: str | None
    #: The price of the page without what the agent adds.
    credits: int
    #: Tokens that a language model used for the data of the page.
    tokens: int
    #: Why the page has no usable content; None otherwise.
    error: str | None = None
    #: For a prompt: the data, and the page or the sentences that share words with it.
    text: str = field(default="", repr=False)
    #: Data by the schema of the request; None without any.
    data: Any = field(default=None, repr=False)
    #: Links that may be read, those that fit the prompt first.
    links: tuple[str, ...] = field(default=(), repr=False)


def agent_pages(bodies: Sequence[bytes], prompt: str, words: str) -> list[AgentPage]:
    """Return what is kept of the pages of these JSON objects.

    ``words`` are the search words of the prompt.
    """
    search = SearchWords(words)
    found = []
    for body, page in zip(map(json.loads, bodies), read_pages(bodies), strict=True):
        facts = body["metadata"]
        text = page.markdown or ""
        if len(text) > WHOLE:
            excerpt = "\n".join(sentences_for(page, prompt))
            text = (excerpt or text)[:WHOLE]
        error = page.error
        if error is None and not text.strip() and page.data is None:
            error = "it has no text"
        if page.data is not None:
            data = json.dumps(page.data, ensure_ascii=False)[:MAX_DATA]
            text = f"Data: {data}\n{text}"
        found.append(
            AgentPage(
                url=page.url,
                final_url=facts.get("url") or page.url,
                title=page.title or page.url,
                description=page.description or "",
                icon=page.icon,
                scrape_id=facts.get("scrapeId"),
                credits=facts.get("creditsUsed") or 0,
                tokens=page.tokens or 0,
                error=error,
                text=text,
                data=page.data,
                links=_links_of(body.get("links") or (), search),
            )
        )
    return found


def _links_of(given: Sequence[Any], search: SearchWords) -> tuple[str, ...]:
    links = dict.fromkeys(
        without_fragment(link)
        for link in given
        if isinstance(link, str) and url_parts(link).scheme in {"http", "https"}
    )
    return tuple(sorted(links, key=lambda u: -search.score(u, None, None)))[:MAX_LINKS]


def pages_text(pages: Sequence[AgentPage], limit: int) -> str:
    """Return the pages as numbered parts of at most ``limit`` bytes in UTF-8."""
    if not pages:
        return ""
    share = limit // len(pages)
    parts = []
    for number, page in enumerate(pages, 1):
        text = f"[{number}] {page.title[:200]} ({page.url})\n{page.text}"
        parts.append(cut(text, share - 2))
    return "\n\n".join(parts)


def cut(text: str, limit: int) -> str:
    """Return the start of a text of at most ``limit`` bytes in UTF-8."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return text
    return encoded[: max(0, limit)].decode(errors="ignore")
