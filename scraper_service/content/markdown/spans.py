"""The inline part of the Markdown writer: text, links, code and emphasis.

The writer collects inline Markdown in ``run``. ``flush`` makes a paragraph of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from scraper_service.content.html.elements import MATHS_RENDERED, SKIPPED, role_of
from scraper_service.content.html.page_urls import is_route
from scraper_service.content.markdown import inline, maths
from scraper_service.content.markdown.code_blocks import (
    code_span,
    fenced,
    text_with_breaks,
)
from scraper_service.content.markdown.footnotes import Footnotes
from scraper_service.content.markdown.inline import APART, MARKS
from scraper_service.content.markdown.layout import Layout
from scraper_service.content.passes import (
    Finder,
    InlineRun,
    TagNames,
    end_link,
    end_paragraph,
    take_run,
    wrap_run,
    write_content,
)
from scraper_service.options.urls import join_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.content.html.document import Document

MAX_JOINED = 2000  # characters of a code span that the next span may join
MAX_DEPTH = 400  # nested elements; deeper elements lose their markup
_NO_SCRIPT = re.compile(r"st|nd|rd|th|er|re|tm|sm|[®™©]|[^\w]*", re.IGNORECASE)
_NO_TEXT = MARKS | {APART}
_AFTER_BRACKET = frozenset("([:")
# Texts of a heading's own anchor, and of a footnote's link back to the text.
_SIGNS_OF_PLACE = frozenset("# ¶ § 🔗 ↩ ↩︎ ↩️ ⏎ ↵ ↑ ⇑ ⬆ ⤴ ^ [↩] [↩︎] [↑] [^]".split())
_HOST = re.compile(r"https?://(?:www\.)?")
# A separator whose neighbours are gone.
_LONE = re.compile(
    r"[\u200c\u200d\s.,;:|/\xb7\u2022\u2023\u203a\xbb\xab\u2039>\\\u2013\u2014+_*-]{1,3}"
)
MAX_SIGNS = 3  # an anchor with as many child elements is a real link
_IMAGE = re.compile(r"!\[[^\[\]]*\]\(\S+\)")
_holds_lines = Finder("br", "div", "li", "pre")
_holds_links = Finder("a")


def _is_sign_of_place(link: Any) -> bool:
    """Return True for a heading's own anchor, or a footnote's link back to the text."""
    text = "".join(link.itertext()) if len(link) < MAX_SIGNS else ""
    if text.strip() not in _SIGNS_OF_PLACE or link.find(".//img") is not None:
        return False
    above = link.getparent()
    return above is None or above.tag != "sup"


def _without_host(address: str) -> str:
    """Return a URL without scheme, ``www.`` and final slash, for comparison."""
    return _HOST.sub("", address).rstrip("/")


class Spans(InlineRun):
    """Collects a run of inline Markdown; each method writes one kind of element."""

    #: The method for each tag, or what the walk itself writes for it.
    writers: ClassVar[Mapping[Any, Callable[[Any, Any], None] | int]] = {}
    # What the walk needs; see ``passes/markdown_walk.py``.
    max_depth = MAX_DEPTH
    maths_roles = MATHS_RENDERED
    skipped = SKIPPED
    destination = staticmethod(inline.destination)
    finish = staticmethod(inline.finish_paragraph)
    role_of = staticmethod(role_of)

    def __init__(self, document: Document, *, remove_base64: bool) -> None:
        self.document = document
        self.base = document.base
        self.losses = document.losses
        self.is_main = document.is_main
        self.remove_base64 = remove_base64
        self.layout = Layout()
        self.notes = Footnotes(document.body)
        self.run: list[str] = []
        self.taken = 0  # calls of ``take``
        self.depth = 0
        self.tags = TagNames()
        self.last_code = ("", "")  # the last code span and its text
        self.flat: str | None = None  # replaces block ends in cells and headings
        self.link: str | None = None  # URL of the unfinished link around
        self.link_from = 0  # where the link's text begins in the run
        self.card: str | None = None  # URL of the link around, before its first heading
        self.in_link = False
        self.open_marks: dict[str, str] = {}  # open marks and their elements' tags

    def content(self, element: Any) -> None:
        """Write the content of ``element``, but not the element itself."""
        write_content(self, element)

    def text(self, text: str) -> None:
        """Add text of the page to the run."""
        run = self.run
        if text.isspace():
            if run:
                run.append(" ")
            return
        text = inline.plain(text)
        if inline.MAY_NEED_ESCAPE.search(text):
            if ("\\" in text or "$$" in text) and (formulas := maths.with_tex(text)):
                run.append(formulas)
                return
            text = inline.escaped(text, label=self.in_link)
        if run and text[:1] in _AFTER_BRACKET and self._follows_bracket():
            text = "\\" + text
        run.append(text)

    def _follows_bracket(self) -> bool:
        last = next((part for part in reversed(self.run) if part not in _NO_TEXT), "")
        return last.endswith("]")

    def flush(self) -> None:
        """End a paragraph if text was collected."""
        end_paragraph(self)

    def short_paragraph(self, text: str) -> None:
        """Add a paragraph of main content that may be a mere image or separator."""
        if text[:2] == "![" and not self.layout.levels and _IMAGE.fullmatch(text):
            self.layout.add_once(text)
        elif not _LONE.fullmatch(text):
            self.layout.paragraph(text)

    def take(self, line_break: str) -> str:
        """Return the collected Markdown, and start a new run."""
        return take_run(self, line_break)

    def spaced(self, element: Any) -> None:
        """Write an element with a space on both sides."""
        self.run.append(" ")
        self.content(element)
        self.run.append(" ")

    def apart(self, element: Any) -> None:
        """Write an element that styles separate from the words beside it."""
        self.run.append(APART)
        self.content(element)
        self.run.append(APART)

    def skip(self, element: Any) -> None:
        """Write nothing."""

    def quote(self, element: Any) -> None:
        self.run.append("\u201c")
        self.content(element)
        self.run.append("\u201d")

    def superscript(self, element: Any) -> None:
        """Write ``sup`` and ``sub`` as HTML, as Markdown has no signs for them.

        Ordinals, trademarks, links and footnotes are written without the tags.
        """
        text = "".join(element.itertext()).strip()
        if _NO_SCRIPT.fullmatch(text) or _holds_links(element):
            self.content(element)
            return
        mark, taken = len(self.run), self.taken
        self.content(element)
        if self.taken == taken:  # it contains no blocks
            wrap_run(self.run, mark, f"<{element.tag}>", f"</{element.tag}>")

    def reading(self, element: Any) -> None:
        """Write the ``rt`` of a ruby, in parentheses if the page has none."""
        bare = not "".join(self.run[-1:]).rstrip().endswith(("(", "\uff08"))
        if bare:
            self.run.append("(")
        self.content(element)
        if bare:
            self.run.append(")")

    def anchor(self, element: Any, code: str | None = None) -> None:
        """Write a link; of blocks, only the first one and the first heading are links.

        ``code`` is a code span that replaces the link's content.
        """
        href = (element.get("href") or "").strip()
        if self.in_link or not href or href == "#":
            self._inner(element, code)
            return
        if href[0] == "#":  # cleaning keeps fragments, for the format ``links``
            if label := self.notes.label(element):
                self.run.append(f"[^{label}]")
                return
            href = join_url(self.base, href)
        if self.is_main and "#" in href and _is_sign_of_place(element):
            return
        if self.is_main and self.flat == " " and self._is_here(href):
            self._inner(element, code)  # a heading that links to itself
            return
        self.in_link = True
        self.link = self.card = href
        self.link_from = len(self.run)
        self._inner(element, code)
        if self.link is not None:
            end_link(self)
        self.in_link, self.link = False, None

    def _is_here(self, href: str) -> bool:
        """Return True if a link leads to the page itself or to a fragment of it."""
        page, _, fragment = href.partition("#")
        base, _, own = self.base.partition("#")
        if is_route(fragment):
            route, own = fragment.partition("?")[0], own.partition("?")[0]
            if route.strip("/") != own.strip("/"):
                return False
        return page == base or _without_host(page) == _without_host(base)

    def _inner(self, element: Any, code: str | None) -> None:
        if code is None:
            self.content(element)
        else:
            self.run.append(code)

    def code(self, element: Any) -> None:
        """Write a code span; a link that is its whole content goes around it."""
        if element.tag == "kbd" and self.run and self.run[-1] is self.last_code[0]:
            self.run.append(" ")  # keys in a row
        children = list(element)
        if not children:
            self._code_span(element.text or "")
            return
        if self.flat is None and _holds_lines(element):
            self.preformatted(element)
            return
        text = text_with_breaks(element)
        link = children[0] if len(children) == 1 else None
        if (
            link is not None
            and link.tag == "a"
            and "".join(link.itertext()).strip() == text.strip()
        ):
            self.anchor(link, code_span(text))
            return
        self._code_span(text)

    def _code_span(self, text: str) -> None:
        """Write ``text`` as code; adjacent code spans become one, or stay two words."""
        if self.run and self.run[-1] is self.last_code[0]:
            if self.last_code[1][-1:].isalnum() and text[:1].isalnum():
                self.run.append(" ")
            elif len(self.last_code[1]) > MAX_JOINED:
                self.run.append("<!-- -->")
            else:
                text = self.last_code[1] + text
                self.run.pop()
        span = code_span(text)
        self.last_code = (span, text)
        self.run.append(span)

    def preformatted(self, element: Any) -> None:
        """Write a code block; in a cell or heading, a code span for each line."""
        self.flush()
        if self.flat is not None:
            for line in filter(str.strip, text_with_breaks(element).splitlines()):
                self._code_span(line)
                self.flush()
            return
        if lines := fenced(element):
            self.layout.add(lines)
