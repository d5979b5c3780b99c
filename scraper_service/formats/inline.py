"""Inline content as the simple HTML that html2text turns into Markdown faultlessly.

Characters that mean something in Markdown are replaced by private-use characters, so
that html2text passes them on unseen; :func:`finished` puts the real ones in their place.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any
from urllib.parse import quote, urljoin

from attrs import define, field

from scraper_service.formats.tags import BLOCKS, SKIPPED

_FIRST = 0xE000  # private use area, never kept from the page itself
_MEANT = "\\`*_[]<&~!"
_TOKEN = {char: chr(_FIRST + n) for n, char in enumerate(_MEANT)}
STRONG, STRONG_END = "\ue060", "\ue061"
EM, EM_END = "\ue062", "\ue063"
STRIKE, STRIKE_END = "\ue064", "\ue065"
BREAK = "\ue066"
_STASH, _STASH_END = "\ue067", "\ue068"
_OPEN, _CLOSE, _LESS, _AND = "\ue070", "\ue071", "\ue072", "\ue073"
_FINAL = str.maketrans(
    {
        **{token: "\\" + char for char, token in _TOKEN.items()},
        **dict.fromkeys((STRONG, STRONG_END), "**"),
        **dict.fromkeys((EM, EM_END), "*"),
        **dict.fromkeys((STRIKE, STRIKE_END), "~~"),
        _OPEN: "(",
        _CLOSE: ")",
        _LESS: "<",
        _AND: "&",
    }
)
_UNSEEN = {"<": _LESS, "&": _AND}  # no Markdown, but html2text must not read them
_JUNK = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\xad\u200b\u2060\ufeff\ue000-\uf8ff\ufff9-\ufffc]+"
)
_SPACE = re.compile("[ \t\n\r\f\v\xa0\u2028\u2029]+")
_SPECIAL = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|\Z)|`|(?<!\s)\*|\*(?!\s)|_(?!\w)|(?<!\w)_|<(?=[a-zA-Z/!?])"
    r"|&(?=#?\w{1,31};)|~(?=~)|(?<=~)~|\](?=[(\[:])|!(?=\[)|!\Z"
)
_LABEL = re.compile(r"[\[\]]")
_QUICK = re.compile(r"[\\`*_<&~\]!]")
_UNSAFE = re.compile(r"[\s<>\"'\\|`*\x00-\x1f\ue000-\uf8ff]")
_NESTED_PAREN = re.compile(r"^[^(]*\)|\([^)]*\(")
_STASHED = re.compile(f"{_STASH}(\\d+){_STASH_END}")
_NOTHING = re.compile(f"{STRONG_END}{STRONG}|{EM_END}{EM}|{STRIKE_END}{STRIKE}")
_PAIRS = {
    **dict.fromkeys(("b", "strong"), (STRONG, STRONG_END)),
    **dict.fromkeys(("i", "em", "cite", "dfn", "var"), (EM, EM_END)),
    **dict.fromkeys(("del", "s", "strike"), (STRIKE, STRIKE_END)),
}
CODE = frozenset({"code", "kbd", "samp", "tt"})
REMOVED_IMAGE = "<Base64-Image-Removed>"


def plain(text: str) -> str:
    """Return visible text without junk, white space collapsed, nothing escaped."""
    if text.isascii():
        if text.isprintable() and "  " not in text:
            return text
        if text.isspace():
            return " "
    return _SPACE.sub(" ", _JUNK.sub("", text))


def escaped(text: str, *, label: bool = False) -> str:
    """Return ``text`` for html2text; ``label`` escapes brackets as well."""
    text = plain(text)
    if _QUICK.search(text):
        text = _SPECIAL.sub(lambda m: _TOKEN[m[0]], text)
        text = text.replace("<", _LESS).replace("&", _AND)
    return _LABEL.sub(lambda m: _TOKEN[m[0]], text) if label else text


def destination(address: str) -> str:
    """Return an address that is safe between the parentheses of a link."""
    address = _UNSAFE.sub(lambda m: quote(m[0]), address)
    if "(" in address or ")" in address:
        balanced = address.count("(") == address.count(")")
        if balanced and not _NESTED_PAREN.search(address):
            address = address.replace("(", _OPEN).replace(")", _CLOSE)
        else:
            address = address.replace("(", "%28").replace(")", "%29")
    return address.replace("[", "%5B").replace("]", "%5D")


def text_with_breaks(element: Any) -> str:
    """Return all text below ``element``, a newline for each ``br``."""
    return "".join(
        part if isinstance(part, str) else "\n"
        for part in element.xpath("descendant::text() | descendant::br")
    )


@define
class Inline:
    """Turns elements into html2text's input; keeps what html2text must not touch."""

    remove_base64: bool
    base: str
    stash: list[str] = field(factory=list)
    open: set[str] = field(factory=set)

    def text(self, text: str) -> str:
        """Return text of the page as it may stand here."""
        return escaped(text, label="a" in self.open)

    def content(self, element: Any) -> str:
        """Return the content of ``element``, without the element itself."""
        label = "a" in self.open
        parts = [escaped(element.text, label=label)] if element.text else []
        for child in element:
            parts.append(self.element(child))
            if child.tail:
                parts.append(escaped(child.tail, label=label))
        return "".join(parts)

    def element(self, element: Any) -> str:
        """Return ``element`` itself, its following text not included."""
        tag = element.tag
        if tag == "a":
            return self.link(element, self._within("a", element))
        if tag in _PAIRS:
            return self._emphasis(element, *_PAIRS[tag])
        if tag == "br":
            return BREAK
        if tag == "img":
            return self._image(element)
        if tag in CODE or tag == "pre":
            return self._code(element)
        if tag == "q":
            return f"\u201c{self.content(element)}\u201d"
        if tag == "input":
            return _checkbox(element)
        if tag in SKIPPED or not isinstance(tag, str):
            return ""
        if tag in {"li", "p", "tr", "div"} and tag in BLOCKS:
            return f"{BREAK}{self.content(element)}{BREAK}"
        if tag in BLOCKS:
            return f" {self.content(element)} "
        return self.content(element)

    def link(self, element: Any, content: str) -> str:
        """Return ``content`` as a link to the address of ``element``."""
        address = (element.get("href") or "").strip()
        core = content.strip(f" {BREAK}")
        if not core or not address or "a" in self.open or address == "#":
            return content
        if address.startswith("#"):  # cleaning leaves them, for the links format
            address = urljoin(self.base, address)
        before = " " if content[0] in f" {BREAK}" else ""
        after = " " if content[-1] in f" {BREAK}" else ""
        core = core.replace(BREAK, " ")
        href = escape(destination(address))
        return f'{before}<a href="{href}">{core}</a>{after}'

    def restore(self, text: str) -> str:
        """Put the kept code spans and the real characters into ``text``."""
        if _STASH in text:
            text = _STASHED.sub(lambda m: self.stash[int(m[1])], text)
        return text

    def _within(self, mark: str, element: Any) -> str:
        nested = mark in self.open
        self.open.add(mark)
        content = self.content(element)
        if not nested:
            self.open.discard(mark)
        return content

    def _emphasis(self, element: Any, start: str, end: str) -> str:
        if start in self.open:
            return self.content(element)
        content = self._within(start, element)
        core = content.strip(f" {BREAK}")
        if not core:
            return content
        at = content.index(core)
        return f"{content[:at]}{start}{core}{end}{content[at + len(core) :]}"

    def _code(self, element: Any) -> str:
        children = [c for c in element if c.tag == "a" and c.get("href")]
        if (
            len(children) == 1
            and not (element.text or "").strip()
            and (
                "".join(element.itertext()).strip()
                == "".join(children[0].itertext()).strip()
            )
        ):
            link = children[0]
            address = link.get("href")
            span = self._span("".join(link.itertext()))
            return span and f'<a href="{escape(destination(address))}">{span}</a>'
        return self._span(text_with_breaks(element))

    def _span(self, text: str) -> str:
        text = plain(text)
        core = text.strip()
        if not core:
            return text
        longest = max((len(run) for run in re.findall("`+", core)), default=0)
        fence = "`" * (longest + 1)
        pad = " " if core[0] == "`" or core[-1] == "`" else ""
        self.stash.append(f"{fence}{pad}{core}{pad}{fence}")
        span = f"{_STASH}{len(self.stash) - 1}{_STASH_END}"
        return f"{' ' * (text[0] == ' ')}{span}{' ' * (text[-1] == ' ')}"

    def _image(self, element: Any) -> str:
        source = (element.get("src") or "").strip()
        alt = escaped((element.get("alt") or "").strip(), label=True)
        if not source or (element.get("width") == "1" and element.get("height") == "1"):
            return ""
        if source[:5].lower() == "data:":
            source = REMOVED_IMAGE if self.remove_base64 else _SPACE.sub("", source)
            source = escape(source)
        else:
            source = escape(destination(source))
        alt = alt.replace("(", _OPEN).replace(")", _CLOSE)
        return f'<img src="{source}" alt="{escape(alt)}">'


def finished(text: str) -> str:
    """Replace the private-use characters by the Markdown they stand for."""
    return _NOTHING.sub("", text).translate(_FINAL)


def _checkbox(element: Any) -> str:
    if element.get("type") != "checkbox":
        return ""
    return "[x] " if element.get("checked") is not None else "[ ] "
