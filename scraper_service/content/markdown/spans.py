"""Collects inline Markdown, and lays out blocks with the prefixes of lists and quotations.

The writer collects text, links, code, images, formulas and footnotes in ``run``. ``flush``
makes a paragraph of it.
"""

from __future__ import annotations

import re
from itertools import chain, dropwhile, islice
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from attrs import define, field

from scraper_service.content import tex
from scraper_service.content.html.code_blocks import language_of, text_with_breaks
from scraper_service.content.html.document import (
    KATEX,
    MATHJAX,
    MATHS_RENDERED,
    SKIPPED,
    role,
    role_of,
)
from scraper_service.content.html.pictures import record_image
from scraper_service.content.markdown import inline
from scraper_service.content.markdown.inline import APART, MARKS, PAD
from scraper_service.content.page_urls import is_placeholder, is_route
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


@define
class ListLevel:
    """A list that is being written."""

    #: Whether items follow each other without blank lines.
    tight: bool
    #: The number of the next item, None in a bulleted list.
    number: int | None
    #: The bullet, or the sign after the number.
    bullet: str
    #: How many levels surround the list.
    depth: int
    #: How many items were written.
    count: int = 0

    @property
    def mark(self) -> str:
        """The marker of the next item, with a space."""
        return (
            f"{self.bullet} " if self.number is None else f"{self.number}{self.bullet} "
        )


@define
class Level:
    """A container around blocks: a list item, a quotation, a definition."""

    #: The prefix of the first line.
    first: str
    #: The prefix of all other lines.
    prefix: str
    #: Whether a line was written in it.
    used: bool = False
    #: The list of a list item.
    in_list: ListLevel | None = None
    #: Whether this is a definition.
    definition: bool = False
    #: The ``prefix`` of all levels around, and of this level.
    path: str = ""


@define
class Layout:
    """Lines of Markdown, with a blank line between blocks that do not belong together."""

    lines: list[str] = field(factory=list)
    levels: list[Level] = field(factory=list)
    #: The list that ended last, and the line after it.
    ended: ListLevel | None = None
    ended_at: int = -1
    #: The line after a term, where a definition may follow.
    term_at: int = -1
    #: Whether the next block follows without a blank line.
    joins: bool = False

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self.lines)

    def push(self, level: Level) -> None:
        """Enter ``level``."""
        level.path = (self.levels[-1].path if self.levels else "") + level.prefix
        self.levels.append(level)

    def paragraph(self, text: str) -> None:
        """Add a paragraph, which may be a definition of the term before it."""
        level = self.levels[-1] if self.levels else None
        if level is not None and level.definition and not level.used:
            follows = self.term_at == len(self.lines)
            level.used = True
            self.joins = self.joins or follows
            self.add(f": {text}" if follows else text)
            self.term_at = len(self.lines)
        else:
            self.add(text)

    def add_once(self, text: str) -> None:
        """Add a block unless it equals the previous block: a copy for smaller screens."""
        if self.levels or self.lines[-1:] != [text]:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a block inside the current levels."""
        lines, levels = self.lines, self.levels
        if not levels:
            if lines and not self.joins:
                lines.append("")
            self.joins = False
            lines.append(text)
            return
        count = len(levels)
        unused = count
        while unused and not levels[unused - 1].used:
            unused -= 1
        above = levels[unused - 1].path if unused else ""
        if lines and not self.joins and not self._is_tight(unused):
            lines.append(above.rstrip())
        self.joins = False
        start = above + "".join([level.first for level in levels[unused:]])
        for level in levels[unused:]:
            level.used = True
            if level.in_list is not None:
                level.in_list.count += 1
        if "\n" not in text:
            lines.append(start + text)
            return
        prefix = levels[-1].path
        first, *others = text.split("\n")
        lines.append(start + first)
        lines += [prefix + line if line else prefix.rstrip() for line in others]

    def _is_tight(self, unused: int) -> bool:
        """Return True if the beginning item needs no blank line before it."""
        if unused == len(self.levels):
            return False
        own = self.levels[unused].in_list
        if own is None or not own.tight:
            return False
        if own.count:
            return True
        inside = any(level.in_list for level in self.levels[:unused])
        # A list that begins with another number cannot interrupt a paragraph.
        return inside and own.number in {None, 1}

    def begin_list(self, *, tight: bool, number: int | None) -> ListLevel:
        """Return a new list, with another marker than a list that has just ended."""
        first, second = ("-", "*") if number is None else (".", ")")
        before = self._just_ended()
        taken = before is not None and before.bullet == first
        return ListLevel(tight, number, second if taken else first, len(self.levels))

    def end_list(self, level: ListLevel) -> None:
        """Remember the list, as another list may follow it."""
        if level.count:
            self.ended, self.ended_at = level, len(self.lines)

    def continue_list(self) -> ListLevel:
        """Return the list that just ended, or a new list, for items outside of lists."""
        return self._just_ended() or self.begin_list(tight=True, number=None)

    def _just_ended(self) -> ListLevel | None:
        ended = self.ended
        if ended is None or self.ended_at != len(self.lines):
            return None
        return ended if ended.depth == len(self.levels) else None


# -- inline Markdown -------------------------------------------------------------------

LEAST_WORDS = 3  # parsers may take shorter footnotes for link definitions
_SIGNS = re.compile(r"[\w*†‡§¶]{1,20}")
_NO_LABEL = re.compile(r"[^\w-]+")
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
REMOVED_IMAGE = "<Base64-Image-Removed>"
MAX_EMOJI = 16  # characters: a family, a flag of letters
_EMOJI_NAMES = re.compile(r"emoji|smil", re.IGNORECASE)
_holds_lines = Finder("br", "div", "li", "pre")
_holds_links = Finder("a")


class Footnotes:
    """The footnotes of a page. References give them labels, in document order."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._is_searched = False
        #: From the first reference on: the list items that are still to be written, by id.
        self.awaited: dict[str, Any] = {}
        self._labels: dict[str, str] = {}  # by the ids of their items
        self._taken: set[str] = set()

    def label(self, link: Any) -> str | None:
        """Return the label of the footnote of ``link``, None for an ordinary link."""
        if not _is_reference(link):
            return None
        name = unquote(link.get("href").strip()[1:])
        if name in self._labels:
            return self._labels[name]
        # Wikipedia's notes are a bibliography: cited repeatedly, with marks of their own.
        if name.startswith("cite_note"):
            return None
        if not self._is_searched:
            self._is_searched = True
            later = dropwhile(lambda e: e is not link, self._body.iter("a", "li"))
            items = (e for e in later if e.tag == "li")
            self.awaited = {key: item for item in items if (key := item.get("id"))}
        target = self.awaited.get(name)
        if target is None:
            return None
        if not _has_words(target):
            del self.awaited[name]  # further references need not read it
            return None
        text = "".join(link.itertext()).strip(" []()\n")
        if not _SIGNS.fullmatch(text) or text in self._taken:
            text = _NO_LABEL.sub("-", name)[:50].strip("-")
            text = text or str(len(self._labels) + 1)
        self._labels[name] = text
        self._taken.add(text)
        return text

    def label_of(self, item: Any) -> str | None:
        """Return the label of a list item that an earlier reference names, or None.

        The item is written next, so that no later reference makes a footnote of it.
        """
        name = item.get("id")
        if self.awaited.pop(name, None) is None:
            return None
        return self._labels.get(name)


def _has_words(item: Any) -> bool:
    """Return True if an element has :data:`LEAST_WORDS` words; read no more of it."""
    texts = (text.split(None, LEAST_WORDS) for text in item.itertext())
    words = islice(chain.from_iterable(texts), LEAST_WORDS)
    return sum(1 for _ in words) == LEAST_WORDS


def _is_reference(link: Any) -> bool:
    parent = link.getparent()
    return (
        (parent is not None and parent.tag == "sup")
        or link.get("role") == "doc-noteref"
        or link.find("sup") is not None
    )


def _is_sign_of_place(link: Any) -> bool:
    """Return True for a heading's own anchor, or a footnote's link back to the text."""
    text = "".join(link.itertext()) if len(link) < MAX_SIGNS else ""
    if text.strip() not in _SIGNS_OF_PLACE or link.find(".//img") is not None:
        return False
    above = link.getparent()
    return above is None or above.tag != "sup"


def _without_host(url: str) -> str:
    """Return a URL without scheme, ``www.`` and final slash, for comparison."""
    return _HOST.sub("", url).rstrip("/")


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
            if ("\\" in text or "$$" in text) and (formulas := inline.with_tex(text)):
                run.append(formulas)
                return
            text = inline.escape_text(text, label=self.in_link)
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

    def with_spaces(self, element: Any) -> None:
        """Write an element with a space on both sides."""
        self.run.append(" ")
        self.content(element)
        self.run.append(" ")

    def apart(self, element: Any) -> None:
        """Write an element that styles separate from the words next to it."""
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
            self.code_block(element)
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

    def code_block(self, element: Any) -> None:
        """Write a code block; in a cell or heading, a code span for each line."""
        self.flush()
        if self.flat is not None:
            for line in filter(str.strip, text_with_breaks(element).splitlines()):
                self._code_span(line)
                self.flush()
            return
        if lines := fenced_code(element):
            self.layout.add(lines)

    def image(self, element: Any) -> None:
        """Write an image, without tracking pixels and repeated images."""
        attributes = element.attrib
        source = (attributes.get("src") or "").strip()
        if "class" in attributes and _is_emoji(attributes):
            self.run.append(attributes["alt"])
            return
        if attributes.get("width") == "1" and attributes.get("height") == "1":
            return
        if not source:
            record_image(self.document, element, is_removed=False)
            return
        alt = attributes.get("alt") or ""
        if alt:
            alt = inline.escape_text(inline.plain(alt).strip(), label=True)
        if source[:5].lower() == "data:":
            if self.remove_base64:
                record_image(self.document, element, is_removed=True)
                if not alt:
                    return
            source = REMOVED_IMAGE if self.remove_base64 else "".join(source.split())
        elif self.is_main and not alt and is_placeholder(source):
            return
        else:
            source = inline.destination(source)
        image = f"![{alt}]({source})"
        if self.is_main and alt.count(" ") >= 2 and self.run[-2:] == [image, APART]:
            return  # a copy for another screen size; rating stars have shorter texts
        if not self.in_link:
            self.run.append(APART)
        self.run += [image, APART]

    def media(self, element: Any) -> None:
        """Write the links inside a film or sound; its text is for old browsers."""
        for link in element.iter("a"):
            self.run.append(APART)
            self.anchor(link)
            self.run.append(APART)

    def formula(self, element: Any) -> None:
        """Write MathML, or a formula that KaTeX or MathJax rendered, as TeX."""
        kind = role(element)
        following = element.getnext()
        role_of_next = None if following is None else role(following)
        if kind in MATHS_RENDERED and kind != KATEX:
            if following is not None and following.get("data-tex") is not None:
                return  # the formula's source follows
            if kind != MATHJAX and role_of_next == MATHJAX:
                return
        found = tex.tex_of(element)
        if found is None:
            self.content(element)
            return
        parent = element.getparent()
        around = parent.get("class") if kind == KATEX and parent is not None else None
        self._tex(found[0], found[1] or "katex-display" in (around or "").split())

    def _tex(self, source: str, displayed: bool) -> None:
        if not source:
            return
        if displayed and self.flat is None and not self.in_link:
            self.flush()
            self.layout.add(f"$${source}$$")
        else:
            source = source.replace("\n", " ").replace("  ", f"{PAD}{PAD}")
            self.run.append(f"${source}$")


def _is_emoji(attributes: Any) -> bool:
    """Return True for an image that stands for the emoji that is its text."""
    alt = attributes.get("alt") or ""
    return (
        0 < len(alt) <= MAX_EMOJI
        and not any(char.isascii() or char.isalpha() for char in alt)
        and _EMOJI_NAMES.search(attributes["class"]) is not None
    )


_BLANK_END = re.compile(r"\n\s*\Z")


def code_span(text: str) -> str:
    """Return ``text`` as a code span; mere white space stays white space."""
    text = inline.plain(text)
    if not text.strip():
        return text
    fence = "`"
    if "`" in text:
        longest = max(len(run) for run in re.findall("`+", text))
        fence = "`" * (longest + 1)
    edges = text[0] + text[-1]
    pad = PAD if "`" in edges or edges == "  " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced_code(element: Any) -> str:
    """Return a ``pre`` element as a fenced code block, empty if it has no text."""
    code = text_with_breaks(element)
    if "\r" in code:
        code = code.replace("\r\n", "\n").replace("\r", "\n")
    if not code.isascii():
        code = re.sub(
            "[\0\ufeff\u200b\u202a-\u202e\u2066-\u2069]", "", code.replace("\xa0", " ")
        )
    code = code.strip("\n")
    if not code or code.isspace():
        return ""
    code = _BLANK_END.sub("", code)
    longest = 2
    if "```" in code:
        longest = max(len(run) for run in re.findall("`{3,}", code))
    fence = "`" * (longest + 1)
    return f"{fence}{language_of(element)}\n{code}\n{fence}"
