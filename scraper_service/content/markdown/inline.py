"""Text as Markdown: white space, escapes, addresses."""

from __future__ import annotations

import re
from urllib.parse import quote

from scraper_service.content.markdown.emphasis import (
    EM,
    EM_END,
    MARKED,
    STRONG,
    STRONG_END,
    emphasised,
)

BREAK, PAD = "\ue066", "\ue067"
APART = "\ue068"  # a space, if there are words on both sides of it

# Besides controls: what turns the direction of text, and runs of characters that nobody
# sees (a flag has seven of them, a letter one selector).
_JUNK = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\xad\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\ue000-\uf8ff\ufff9-\ufffc]+"
    "|[\U000e0000-\U000e007f]{8,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}"
)
_PRINTABLE_JUNK = re.compile("[\ufffc\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # for Python
_MANY_SPACES = re.compile("  +")
_SPACES = re.compile(
    " [ \t\n\r\f\v\xa0\u2028\u2029]+|[\t\n\r\f\v\xa0\u2028\u2029][ \t\n\r\f\v\xa0\u2028\u2029]*"
)
SOME_MEAN = re.compile(r"[\\`*_<&~\[\]!]")
_MEANT = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|\s?\Z)|`|\*(?!\s\S)|(?<!\S\s)\*|_(?![^\W_])|(?<![^\W_])_"
    r"|<(?=[a-zA-Z/!?]|\Z)|&(?=#?\w{1,31};)|~(?=~|\Z)|(?<=~)~|\](?=[(\[:])|!(?=\[)"
)
_MEANT_IN_LABEL = re.compile(rf"[\[\]]|{_MEANT.pattern}")
_LINE_START = re.compile(
    r"^(?:(?=#{1,6}(?:\s|$)|[-+*](?:\s|$)|>|=+\s*$|-[- ]*$|(?=[|: ]*-)[|: -]+$|~~~)"
    r"|(\d{1,9})(?=[.)](?:\s|$)))",
    re.MULTILINE,
)
_STARTS = frozenset("#-+*>=~|:0123456789")
_APART = re.compile(
    rf"(?<=[\w){STRONG_END}{EM_END}])({APART}+)(?=[{STRONG}{EM}]*\[?[{STRONG}{EM}]*\w|!\[)|{APART}"
)
_BREAKS = re.compile(f" ?{BREAK}[ {BREAK}]*")
_UNSAFE = re.compile(r"[\s<>\\`|\"\x00-\x1f\ue000-\uf8ff]")
_ODD = re.compile(r"[\s<>\\`|\"()\[\]&\x00-\x1f\ue000-\uf8ff]")
_ENTITY = re.compile(r"&(?=#?\w{1,31};)")
_NESTED_PAREN = re.compile(r"^[^(]*\)|\([^)]*\(")


def plain(text: str) -> str:
    """Return visible text without junk, white space collapsed, nothing escaped."""
    if text.isascii():
        if text.isprintable() and "  " not in text:
            return text
        core = " ".join(text.split())
        if not core:
            return " "
        return f"{' ' * text[0].isspace()}{core}{' ' * text[-1].isspace()}"
    spaced = text.replace("\n", " ").replace("\t", " ").replace("\xa0", " ")
    if spaced.isprintable() and not _PRINTABLE_JUNK.search(spaced):
        return _MANY_SPACES.sub(" ", spaced) if "  " in spaced else spaced
    return _SPACES.sub(" ", _JUNK.sub("", text))


def escaped(text: str, *, label: bool = False) -> str:
    """Return plain text as Markdown; ``label`` escapes all brackets."""
    if label:
        return _MEANT_IN_LABEL.sub(r"\\\g<0>", text)
    return _MEANT.sub(r"\\\g<0>", text) if SOME_MEAN.search(text) else text


def destination(address: str) -> str:
    """Return an address that is safe between the parentheses of a link."""
    if not _ODD.search(address):
        return address
    address = _UNSAFE.sub(lambda m: quote(m[0]), address)
    if ("(" in address or ")" in address) and (
        address.count("(") != address.count(")") or _NESTED_PAREN.search(address)
    ):
        address = address.replace("(", "%28").replace(")", "%29")
    address = _ENTITY.sub("&amp;", address)
    return address.replace("[", "%5B").replace("]", "%5D")


def finished(text: str, line_break: str) -> str:
    """Return what was collected of a paragraph as its Markdown.

    ``line_break`` stands for each ``br``: a hard break, a space, or ``<br>``.
    """
    if APART in text:
        text = _APART.sub(lambda m: " " if m[1] else "", text)
    if "  " in text:
        text = _MANY_SPACES.sub(" ", text)
    if not text.isascii():
        if BREAK in text:
            text = _BREAKS.sub(line_break, text)
        if PAD in text:
            text = text.replace(PAD, " ")
        if MARKED.search(text):
            text = emphasised(text)
    if line_break[-1] == "\n" and (text[:1] in _STARTS or "\n" in text):
        text = _LINE_START.sub(_protected, text)
    return text


def _protected(match: re.Match[str]) -> str:
    return f"{match[1]}\\" if match[1] else "\\"
