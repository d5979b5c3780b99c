"""Writes inline text as Markdown: white space, escapes, link destinations, emphasis.

Private-use characters mark emphasis while a paragraph is collected. Delimiters replace
the marks at the end, as the right choice depends on the characters around.
"""

from __future__ import annotations

import re
import string
import unicodedata
from urllib.parse import quote

from scraper_service.content.tex import LIKE_TEX

STRONG, STRONG_END = "\ue060", "\ue061"
EM, EM_END = "\ue062", "\ue063"
STRIKE, STRIKE_END = "\ue064", "\ue065"
MARKED = re.compile(f"[{STRONG}-{STRIKE_END}]")
_MARKS = re.compile(f"([{STRONG}-{STRIKE_END}])")
_EMPTY = re.compile(f"{STRONG_END}{STRONG}|{EM_END}{EM}|{STRIKE_END}{STRIKE}")
_BETWEEN_CODE = re.compile(f"(?<=`)(?:{_EMPTY.pattern})(?=`)")
MAX_ATTEMPTS = 3
SIMPLE = 10  # parts; up to two marked texts, whose delimiters cannot collide
_DELIMITERS = {STRONG: ("**", "__"), EM: ("*", "_"), STRIKE: ("~~",)}
_TAG = {
    STRONG: "<strong>",
    STRONG_END: "</strong>",
    EM: "<em>",
    EM_END: "</em>",
    STRIKE: "<del>",
    STRIKE_END: "</del>",
}
# Punctuation at the edges of a marked text, without characters of Markdown.
_TRAILING = re.compile(r" ?(?<!\\)[.,:;?%/'\"\u2019\u201d»\u2026\u2013\u2014-]{1,9}\Z")
_LEADING = re.compile(r"[.,:;?%/'\"\u2018\u201c«\u2026\u2013\u2014-]{1,9} ?")
_STRIKES = frozenset({STRIKE, STRIKE_END})
_TAGS = frozenset(_TAG.values())
MARKS = frozenset(_TAG)
_PUNCTUATION = frozenset(string.punctuation)


def resolve_emphasis(text: str) -> str:
    """Replace marks by delimiters that open and close there, by CommonMark's rules."""
    parts = _MARKS.split(text)
    if len(parts) == 5 and (quick := _with_stars(*parts)) is not None:
        return quick
    if len(parts) > 5:
        text = _BETWEEN_CODE.sub("<!-- -->", text)
        parts = _MARKS.split(_EMPTY.sub("", text))
    is_moved = False
    for _ in range(MAX_ATTEMPTS):
        marks = _with_delimiters(parts)
        if not is_moved and not _TAGS.isdisjoint(marks[1::2]):
            parts, is_moved = _without_punctuation(parts), True
            marks = _with_delimiters(parts)
        if all(marks[1::2]) and _TAGS.isdisjoint(marks[1::2]):
            return "".join(marks)
        # Tags and dropped emphasis change the neighbours of other marks: try again.
        for at in range(1, len(parts), 2):
            if not marks[at] or marks[at] in _TAGS:
                parts[at] = marks[at]
        parts = _MARKS.split("".join(parts))
    return "".join([_TAG.get(part, part) for part in parts])


def _with_stars(
    before: str, start: str, inside: str, _end: str, after: str
) -> str | None:
    """Return a text with stars around its only marked text, None if they may not work."""
    if not inside or start == STRIKE:
        return None
    if not (inside[0].isalnum() or _is_apart(before[-1:])):
        return None
    if not (inside[-1].isalnum() or _is_apart(after[:1])):
        return None
    stars = _DELIMITERS[start][0]
    return f"{before}{stars}{inside}{stars}{after}"


def _without_punctuation(parts: list[str]) -> list[str]:
    """Move punctuation at the edges of marked texts out, where letters touch it.

    No delimiter works between punctuation and letters. Marked texts of mere punctuation
    lose their marks.
    """
    parts = parts[:]
    for start, end, _ in reversed(_pairs(parts)):
        if parts[end + 1][:1].isalnum() and (found := _TRAILING.search(parts[end - 1])):
            parts[end - 1] = parts[end - 1][: found.start()]
            parts[end + 1] = found[0] + parts[end + 1]
        if parts[start - 1][-1:].isalnum() and (
            found := _LEADING.match(parts[start + 1])
        ):
            parts[start + 1] = parts[start + 1][found.end() :]
            parts[start - 1] += found[0]
        if not "".join(parts[start + 1 : end : 2]):
            parts[start] = parts[end] = ""
    return _MARKS.split("".join(parts))


def _with_delimiters(parts: list[str]) -> list[str]:
    """Return ``parts`` with delimiters for marks, or tags where no delimiter works.

    Emphasis inside emphasis of the same kind is dropped if no delimiter works. So is
    emphasis without letters or digits. Outer emphasis comes first, as inner delimiters
    have to differ.
    """
    if len(parts) == 5:
        return _with_one_pair(parts)
    before, after = _edges(parts)
    marks = parts[:]
    for start, end, outer in _pairs(parts):
        around = (before[start], after[start], before[end], after[end])
        free = [
            delimiter
            for delimiter in _usable_delimiters(parts[start], around)
            if not _collides(marks, start, end, delimiter)
        ]
        if outer:
            above = marks[outer]
            inside = after[start].isalnum() and before[end].isalnum()
            free = [
                delimiter
                for delimiter in free
                if above
                and delimiter[0] != above[0]
                and (inside or delimiter[0] == "_")
            ]
        elif not free:
            marks[start], marks[end] = _tags_for(parts, start, end)
            continue
        marks[start] = marks[end] = free[0] if free else ""
    return marks


def _with_one_pair(parts: list[str]) -> list[str]:
    """Return the same for parts with a single marked text."""
    before, start, inside, _, after = parts
    fitting = _usable_delimiters(
        start, (before[-1:], inside[:1], inside[-1:], after[:1])
    )
    first, last = fitting[:1] * 2 or _tags_for(parts, 1, 3)
    return [before, first, inside, last, after]


def _tags_for(parts: list[str], start: int, end: int) -> tuple[str, str]:
    """Return the tags for two marks, empty around text without letters or digits."""
    text = "".join(parts[start + 1 : end : 2])
    if not any(map(str.isalnum, text)):
        return "", ""
    return _TAG[parts[start]], _TAG[parts[end]]


def _pairs(parts: list[str]) -> list[tuple[int, int, int]]:
    """Return start and end of each marked text, outer texts first.

    The third number is the start of the enclosing mark of the same kind, or 0.
    """
    pairs = []
    stack: list[int] = []
    for at in range(1, len(parts), 2):
        if parts[at] in _DELIMITERS:
            stack.append(at)
            continue
        start = stack.pop()
        same = (outer for outer in reversed(stack) if parts[outer] == parts[start])
        pairs.append((start, at, next(same, 0)))
    return sorted(pairs)


def _usable_delimiters(kind: str, around: tuple[str, str, str, str]) -> list[str]:
    """Return the delimiters that open and close between these characters."""
    first, inner, last, following = around
    stars, *bars = _DELIMITERS[kind]
    opens, closes = _is_apart(first), _is_apart(following)
    fitting = []
    if (opens or inner.isalnum()) and (closes or last.isalnum()):
        fitting.append(stars)
    if opens and closes:
        fitting += bars
    return [] if kind == STRIKE and "~" in around else fitting


def _collides(marks: list[str], start: int, end: int, delimiter: str) -> bool:
    """Return True if a delimiter would merge with another delimiter next to it."""
    if len(marks) <= SIMPLE:
        return False
    others = [
        marks[at + step * 2]
        for at in (start, end)
        for step in (-1, 1)
        if 0 < at + step * 2 < len(marks) and not marks[at + step]
    ]
    return any(mark[:1] == delimiter[0] for mark in others)


def _edges(parts: list[str]) -> tuple[list[str], list[str]]:
    """Return the characters before and after each mark.

    A neighbouring mark counts as its delimiter's character, ``*`` or ``~``. Marks with
    the same character are skipped.
    """
    before, after = [""] * len(parts), [""] * len(parts)
    for edges, order, end in (
        (before, range(len(parts)), -1),
        (after, range(len(parts) - 1, -1, -1), 0),
    ):
        last = {True: "", False: ""}
        for at in order:
            part = parts[at]
            if at % 2 == 0:
                if part:
                    last[True] = last[False] = part[end]
                continue
            strikes = part in _STRIKES
            edges[at] = last[strikes]
            last[not strikes] = "~" if strikes else "*"
    return before, after


def _is_apart(char: str) -> bool:
    """Return True for white space and punctuation, in all versions of CommonMark."""
    return (
        char.isspace()
        or not char
        or char in _PUNCTUATION
        or unicodedata.category(char)[0] == "P"
    )


BREAK, PAD = "\ue066", "\ue067"
APART = "\ue068"  # a space, if there are words on both sides of it

# Controls, marks of text direction, and runs of invisible characters (a flag has seven
# of them, a letter has one variation selector).
_JUNK = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\xad\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\ue000-\uf8ff\ufff9-\ufffc]+"
    "|[\U000e0000-\U000e007f]{8,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}"
)
_PRINTABLE_JUNK = re.compile(  # printable to Python
    "[\ufffc\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_MANY_SPACES = re.compile("  +")
_SPACES = re.compile(
    " [ \t\n\r\f\v\xa0\u2028\u2029]+|[\t\n\r\f\v\xa0\u2028\u2029][ \t\n\r\f\v\xa0\u2028\u2029]*"
)
MAY_NEED_ESCAPE = re.compile(r"[\\`*_<&~\[\]!]")
_MARKUP = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|\s?\Z)|`|\*(?!\s\S)|(?<!\S\s)\*|_(?![^\W_])|(?<![^\W_])_"
    r"|<(?=[a-zA-Z/!?]|\Z)|&(?=#?\w{1,31};)|~(?=~|\Z)|(?<=~)~|\](?=[(\[:])|!(?=\[)"
)
_MARKUP_IN_LABEL = re.compile(rf"[\[\]]|{_MARKUP.pattern}")
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
    """Return visible text without junk, with white space collapsed, nothing escaped."""
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


def escape_text(text: str, *, label: bool = False) -> str:
    """Return plain text as Markdown; with ``label``, escape all brackets."""
    if label:
        return _MARKUP_IN_LABEL.sub(r"\\\g<0>", text)
    return _MARKUP.sub(r"\\\g<0>", text) if MAY_NEED_ESCAPE.search(text) else text


def destination(url: str) -> str:
    """Return a URL that is safe between the parentheses of a link."""
    if not _ODD.search(url):
        return url
    url = _UNSAFE.sub(lambda m: quote(m[0]), url)
    if ("(" in url or ")" in url) and (
        url.count("(") != url.count(")") or _NESTED_PAREN.search(url)
    ):
        url = url.replace("(", "%28").replace(")", "%29")
    url = _ENTITY.sub("&amp;", url)
    return url.replace("[", "%5B").replace("]", "%5D")


def finish_paragraph(text: str, line_break: str) -> str:
    """Return a collected paragraph as its Markdown.

    ``line_break`` replaces each ``br``: a hard break, a space, or ``<br>``.
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
            text = resolve_emphasis(text)
    if line_break[-1] == "\n" and (text[:1] in _STARTS or "\n" in text):
        text = _LINE_START.sub(_escape_line_start, text)
    return text


def _escape_line_start(match: re.Match[str]) -> str:
    return f"{match[1]}\\" if match[1] else "\\"


_IN_TEXT = re.compile(
    r"\\\(((?:(?!\\[(\[)]).){1,500}?)\\\)|\\\[((?:(?!\\[(\[\]]).){1,1000}?)\\\]"
    r"|\$\$((?:(?!\$\$).){1,1000}?)\$\$"
)


def with_tex(text: str) -> str | None:
    r"""Return escaped text with ``\(...\)`` and ``$$...$$`` as formulas, None without any."""
    parts: list[str] = []
    end = 0
    for match in _IN_TEXT.finditer(text):
        source = match[1] or match[2] or match[3]
        if LIKE_TEX.search(source):
            sign = "$" if match[1] else "$$"
            parts += [
                escape_text(text[end : match.start()]),
                sign,
                source.strip(),
                sign,
            ]
            end = match.end()
    return "".join([*parts, escape_text(text[end:])]) if parts else None
