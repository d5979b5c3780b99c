"""The inline half of the Markdown writer: text, links, images, code, emphasis.

What it collects in ``run`` becomes a paragraph when ``flush`` is called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urljoin

from scraper_service.content.html.roles import role_of
from scraper_service.content.markdown import emphasis, inline, maths
from scraper_service.content.markdown.code_blocks import (
    code_span,
    fenced,
    text_with_breaks,
)
from scraper_service.content.markdown.emphasis import MARKS
from scraper_service.content.markdown.footnotes import Notes
from scraper_service.content.markdown.inline import APART, BREAK
from scraper_service.content.markdown.layout import Layout
from scraper_service.content.passes import compiled, finder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.content.html.document import Document

MAX_JOINED = 2000  # characters of code in spans side by side that become one
_AROUND = f" {BREAK}{APART}"
MAX_DEPTH = 400  # elements inside each other; what is deeper loses its markup
_NO_SCRIPT = re.compile(r"st|nd|rd|th|er|re|tm|sm|[®™©]|[^\w]*", re.IGNORECASE)
_NO_TEXT = MARKS | {APART}
_AFTER_BRACKET = frozenset("([:")
# Of a link beside a heading, to be copied; and of one from a note back to the text.
_SIGNS_OF_PLACE = frozenset("# ¶ § 🔗 ↩ ↩︎ ↩️ ⏎ ↵ ↑ ⇑ ⬆ ⤴ ^ [↩] [↩︎] [↑] [^]".split())
_HOST = re.compile(r"https?://(?:www\.)?")
# A sign that parted what is no longer there.
_LONE = re.compile(
    r"[\u200c\u200d\s.,;:|/\xb7\u2022\u2023\u203a\xbb\xab\u2039>\\\u2013\u2014+_*-]{1,3}"
)
MAX_SIGNS = 3  # elements in such a link
_IMAGE = re.compile(r"!\[[^\[\]]*\]\(\S+\)")
_holds_lines = finder("br", "div", "li", "pre")  # then code has lines
_holds_links = finder("a")


def _is_sign_of_place(link: Any) -> bool:
    """Tell a link to where it stands itself, or back to where it was mentioned."""
    text = "".join(link.itertext()) if len(link) < MAX_SIGNS else ""
    if text.strip() not in _SIGNS_OF_PLACE or link.find(".//img") is not None:
        return False
    above = link.getparent()
    return above is None or above.tag != "sup"


def _without_host(address: str) -> str:
    """Return an address without what is often left out or added."""
    return _HOST.sub("", address).rstrip("/")


class Spans:
    """A run of inline Markdown; ``writers`` are the methods for tags.

    ``flat`` is what stands for the end of a block where no blocks can be: in cells and
    headings. ``link`` is the address of the link around, until it is written.
    """

    writers: ClassVar[Mapping[Any, Callable[[Any, Any], None]]] = {}
    role_of = staticmethod(role_of)

    def __init__(self, document: Document, *, remove_base64: bool) -> None:
        self.base = document.base
        self.is_main = document.is_main
        self.remove_base64 = remove_base64
        self.layout = Layout()
        self.notes = Notes(document.body)
        self.run: list[str] = []
        self.taken = 0  # how often the run was taken
        self.depth = 0
        self.names: dict[int, Any] = {}  # of the compiled pass, for its own use
        self.last_code = ("", "")  # the last code span, and its text
        self.flat: str | None = None
        self.link: str | None = None
        self.link_from = 0  # where its text begins in the run
        self.in_link = False
        self.emphasised: dict[str, str] = {}  # marks, and the tags of their elements

    def content(self, element: Any) -> None:
        """Write all that is in ``element``, not the element itself."""
        if compiled is not None:
            compiled.content(self, element, MAX_DEPTH)
            return
        text = element.text
        if text:
            self.text(text)
        if not len(element):
            return
        if self.depth >= MAX_DEPTH:
            self.text(" ".join(part for c in element for part in c.itertext()))
            return
        self.depth += 1
        writers = self.writers
        for child in element:
            write = writers.get(child.tag)
            if write is None:
                self.content(child)
            else:
                write(self, child)
            text = child.tail
            if text:
                self.text(text)
        self.depth -= 1

    def text(self, text: str) -> None:
        """Add text of the page to the run."""
        run = self.run
        if text.isspace():
            if run:
                run.append(" ")
            return
        text = inline.plain(text)
        if inline.SOME_MEAN.search(text):
            if "\\" in text and (formulas := maths.with_tex(text)):
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
        """End a paragraph, if there is one."""
        run = self.run
        if not run:
            return
        if self.flat is not None:
            run.append(self.flat)
            return
        text = self.take("  \n")
        if (
            self.is_main
            and text[:2] == "!["
            and not self.layout.levels
            and _IMAGE.fullmatch(text)
        ):
            self.layout.add_once(text)
        elif text and not (self.is_main and _LONE.fullmatch(text)):
            self.layout.paragraph(text)

    def take(self, line_break: str) -> str:
        """Return what was collected as Markdown, and begin anew."""
        if self.link is not None:
            self._end_link()
            self.link_from = 0
        self.taken += 1
        run = self.run
        text = (run[0] if len(run) == 1 else "".join(run)).strip(_AROUND)
        run.clear()
        return inline.finished(text, line_break) if text else ""

    def spaced(self, element: Any) -> None:
        """Write an element that stands apart from its neighbours."""
        self.run.append(" ")
        self.content(element)
        self.run.append(" ")

    def apart(self, element: Any) -> None:
        """Write an element that styles draw apart from the words beside it."""
        self.run.append(APART)
        self.content(element)
        self.run.append(APART)

    def skip(self, element: Any) -> None:
        """Write nothing."""

    def line_break(self, _element: Any) -> None:
        """Write a break; two of them end a paragraph."""
        run = self.run
        if not run:
            return
        again = run[-1] == BREAK or (run[-1] == " " and run[-2:-1] == [BREAK])
        if again and not self.in_link and self.flat is None and not self.emphasised:
            self.flush()
        else:
            run.append(BREAK)

    def strong(self, element: Any) -> None:
        self._emphasis(element, emphasis.STRONG, emphasis.STRONG_END)

    def stressed(self, element: Any) -> None:
        self._emphasis(element, emphasis.EM, emphasis.EM_END)

    def strike(self, element: Any) -> None:
        self._emphasis(element, emphasis.STRIKE, emphasis.STRIKE_END)

    def _emphasis(self, element: Any, start: str, end: str) -> None:
        """Mark the content, unless there are blocks in it.

        What is bold by one tag and then again by another is so once, in main content by
        the same tag, too.
        """
        mark, taken, lines = len(self.run), self.taken, len(self.layout.lines)
        outer = self.emphasised.get(start)
        if outer is not None and (
            outer != element.tag
            or start == emphasis.STRIKE
            or (self.is_main and start == emphasis.STRONG)
        ):
            self.content(element)
            return
        self.emphasised[start] = element.tag
        self.content(element)
        if outer is None:
            del self.emphasised[start]
        if self.taken != taken:
            mark = 0
            if len(self.layout.lines) != lines:
                return
        self._wrap(mark, start, end)

    def _wrap(self, mark: int, start: str, end: str) -> bool:
        """Put marks around what was written since, the space at its edges left out."""
        run = self.run
        text = run[-1] if len(run) == mark + 1 else "".join(run[mark:])
        core = text.strip(_AROUND)
        if not core:
            return False
        if core != text:
            before, _, after = text.partition(core)
            start, end = before + start, end + after
        run[mark:] = [start, core, end]
        return True

    def quoted(self, element: Any) -> None:
        self.run.append("\u201c")
        self.content(element)
        self.run.append("\u201d")

    def raised(self, element: Any) -> None:
        """Write ``sup`` and ``sub`` as HTML, which Markdown has no signs for.

        Not where they are typography only, and not round links and footnotes.
        """
        text = "".join(element.itertext()).strip()
        if _NO_SCRIPT.fullmatch(text) or _holds_links(element):
            self.content(element)
            return
        mark, taken = len(self.run), self.taken
        self.content(element)
        if self.taken == taken:  # there are no blocks in it
            self._wrap(mark, f"<{element.tag}>", f"</{element.tag}>")

    def reading(self, element: Any) -> None:
        """Write the ``rt`` of a ruby in parentheses, where the page has none."""
        bare = not "".join(self.run[-1:]).rstrip().endswith(("(", "\uff08"))
        if bare:
            self.run.append("(")
        self.content(element)
        if bare:
            self.run.append(")")

    def anchor(self, element: Any, code: str | None = None) -> None:
        """Write a link; if there are blocks in it, the first paragraph is the link.

        ``code`` stands for its content.
        """
        href = (element.get("href") or "").strip()
        if self.in_link or not href or href == "#":
            self._inner(element, code)
            return
        if href[0] == "#":  # cleaning leaves them, for the links format
            if label := self.notes.label(element):
                self.run.append(f"[^{label}]")
                return
            href = urljoin(self.base, href)
        if self.is_main and "#" in href and _is_sign_of_place(element):
            return
        if self.is_main and self.flat == " " and self._is_here(href):
            self._inner(element, code)  # a heading that links to itself
            return
        self.in_link = True
        self.link, self.link_from = href, len(self.run)
        self._inner(element, code)
        if self.link is not None:
            self._end_link()
        self.in_link, self.link = False, None

    def _is_here(self, href: str) -> bool:
        """Tell whether a link leads to the page itself, or to a place on it."""
        page, base = href.partition("#")[0], self.base.partition("#")[0]
        return page == base or _without_host(page) == _without_host(base)

    def _inner(self, element: Any, code: str | None) -> None:
        if code is None:
            self.content(element)
        else:
            self.run.append(code)

    def _end_link(self) -> None:
        """Make a link of what was written since it began, if that is anything."""
        assert self.link is not None
        run, start = self.run, self.link_from
        if not self._wrap(start, "[", f"]({inline.destination(self.link)})"):
            return
        run[start + 1] = run[start + 1].replace(BREAK, " ")
        touches = run[start] == "["
        while start and run[start - 1] in MARKS:
            start -= 1
        if touches and start and run[start - 1][-1:] == "!":
            run[start - 1] = f"{run[start - 1][:-1]}\\!"
        self.link = None

    def code(self, element: Any) -> None:
        """Write a code span; a link that is all of its content goes around it."""
        if element.tag == "kbd" and self.run and self.run[-1] is self.last_code[0]:
            self.run.append(" ")  # keys, one after the other
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
        """Write ``text`` as code; two spans side by side are one, as they look."""
        if self.run and self.run[-1] is self.last_code[0]:
            if len(self.last_code[1]) > MAX_JOINED:
                self.run.append("<!-- -->")
            else:
                text = self.last_code[1] + text
                self.run.pop()
        span = code_span(text)
        self.last_code = (span, text)
        self.run.append(span)

    def preformatted(self, element: Any) -> None:
        """Write a code block."""
        if self.flat is not None:
            self._code_span(text_with_breaks(element))
            return
        self.flush()
        if lines := fenced(element):
            self.layout.add(lines)
