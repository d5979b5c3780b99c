"""Emphasis: which delimiters open and close where they stand.

It is marked by private-use characters while a paragraph is collected, as what is right
depends on the characters around.
"""

from __future__ import annotations

import re
import string
import unicodedata

STRONG, STRONG_END = "\ue060", "\ue061"
EM, EM_END = "\ue062", "\ue063"
STRIKE, STRIKE_END = "\ue064", "\ue065"
MARKED = re.compile(f"[{STRONG}-{STRIKE_END}]")
_MARKS = re.compile(f"([{STRONG}-{STRIKE_END}])")
_NOTHING = re.compile(f"{STRONG_END}{STRONG}|{EM_END}{EM}|{STRIKE_END}{STRIKE}")
_BETWEEN_CODE = re.compile(f"(?<=`)(?:{_NOTHING.pattern})(?=`)")
MAX_ATTEMPTS = 3
SIMPLE = 10  # parts of a paragraph with two marked texts: these cannot be mistaken
_DELIMITERS = {STRONG: ("**", "__"), EM: ("*", "_"), STRIKE: ("~~",)}
_TAG = {
    STRONG: "<strong>",
    STRONG_END: "</strong>",
    EM: "<em>",
    EM_END: "</em>",
    STRIKE: "<del>",
    STRIKE_END: "</del>",
}
# Not what may be part of Markdown.
_LAST = re.compile(r" ?(?<!\\)[.,:;?%/'\"\u2019\u201d»\u2026\u2013\u2014-]{1,9}\Z")
_FIRST = re.compile(r"[.,:;?%/'\"\u2018\u201c«\u2026\u2013\u2014-]{1,9} ?")
_STRIKES = frozenset({STRIKE, STRIKE_END})
_TAGS = frozenset(_TAG.values())
MARKS = frozenset(_TAG)
_PUNCTUATION = frozenset(string.punctuation)


def emphasised(text: str) -> str:
    """Choose delimiters that open and close where they stand, by CommonMark's rules."""
    text = _BETWEEN_CODE.sub("<!-- -->", text)
    parts = _MARKS.split(_NOTHING.sub("", text))
    is_moved = False
    for _ in range(MAX_ATTEMPTS):
        marks = _delimited(parts)
        if not is_moved and not _TAGS.isdisjoint(marks[1::2]):
            parts, is_moved = _without_punctuation(parts), True
            marks = _delimited(parts)
        if all(marks[1::2]) and _TAGS.isdisjoint(marks[1::2]):
            return "".join(marks)
        # Tags, and emphasis left out, change what is beside the other: once more.
        for place in range(1, len(parts), 2):
            if not marks[place] or marks[place] in _TAGS:
                parts[place] = marks[place]
        parts = _MARKS.split("".join(parts))
    return "".join([_TAG.get(part, part) for part in parts])


def _without_punctuation(parts: list[str]) -> list[str]:
    """Move punctuation at the edges of marked texts out, where letters touch it.

    No delimiter can stand between these two. What is nothing but punctuation there
    loses its marks.
    """
    parts = parts[:]
    for start, end, _ in reversed(_pairs(parts)):
        if parts[end + 1][:1].isalnum() and (found := _LAST.search(parts[end - 1])):
            parts[end - 1] = parts[end - 1][: found.start()]
            parts[end + 1] = found[0] + parts[end + 1]
        if parts[start - 1][-1:].isalnum() and (
            found := _FIRST.match(parts[start + 1])
        ):
            parts[start + 1] = parts[start + 1][found.end() :]
            parts[start - 1] += found[0]
        if not "".join(parts[start + 1 : end : 2]):
            parts[start] = parts[end] = ""
    return _MARKS.split("".join(parts))


def _delimited(parts: list[str]) -> list[str]:
    """Return ``parts`` with delimiters for marks, or tags where none of them works.

    Nested emphasis without a working delimiter is left out, and that of a mere sign.
    Outer emphasis is settled first, as what is inside has to differ from it.
    """
    if len(parts) == 5:
        return _one_delimited(parts)
    before, after = _edges(parts)
    marks = parts[:]
    for start, end, outer in _pairs(parts):
        around = (before[start], after[start], before[end], after[end])
        free = [
            delimiter
            for delimiter in _fitting(parts[start], around)
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
            marks[start], marks[end] = _tagged(parts, start, end)
            continue
        marks[start] = marks[end] = free[0] if free else ""
    return marks


def _one_delimited(parts: list[str]) -> list[str]:
    """Do the same where only one text is marked."""
    before, start, inside, _, after = parts
    fitting = _fitting(start, (before[-1:], inside[:1], inside[-1:], after[:1]))
    first, last = fitting[:1] * 2 or _tagged(parts, 1, 3)
    return [before, first, inside, last, after]


def _tagged(parts: list[str], start: int, end: int) -> tuple[str, str]:
    """Return the tags for two marks, none where there are neither letters nor digits."""
    text = "".join(parts[start + 1 : end : 2])
    if not any(map(str.isalnum, text)):
        return "", ""
    return _TAG[parts[start]], _TAG[parts[end]]


def _pairs(parts: list[str]) -> list[tuple[int, int, int]]:
    """Return start, end, and the start of the same kind around or 0, outer ones first."""
    pairs = []
    stack: list[int] = []
    for place in range(1, len(parts), 2):
        if parts[place] in _DELIMITERS:
            stack.append(place)
            continue
        start = stack.pop()
        same = (outer for outer in reversed(stack) if parts[outer] == parts[start])
        pairs.append((start, place, next(same, 0)))
    return sorted(pairs)


def _fitting(kind: str, around: tuple[str, str, str, str]) -> list[str]:
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
    """Tell whether a delimiter would become one with another that is beside it."""
    if len(marks) <= SIMPLE:
        return False
    beside = [
        marks[place + step * 2]
        for place in (start, end)
        for step in (-1, 1)
        if 0 < place + step * 2 < len(marks) and not marks[place + step]
    ]
    return any(mark[:1] == delimiter[0] for mark in beside)


def _edges(parts: list[str]) -> tuple[list[str], list[str]]:
    """Return the characters before and after each mark.

    Marks beside it are left out where their delimiters are of the same character.
    """
    before, after = [""] * len(parts), [""] * len(parts)
    for edges, places, end in (
        (before, range(len(parts)), -1),
        (after, range(len(parts) - 1, -1, -1), 0),
    ):
        last = {True: "", False: ""}
        for place in places:
            part = parts[place]
            if place % 2 == 0:
                if part:
                    last[True] = last[False] = part[end]
                continue
            strikes = part in _STRIKES
            edges[place] = last[strikes]
            last[not strikes] = "~" if strikes else "*"
    return before, after


def _is_apart(char: str) -> bool:
    """Tell white space and punctuation, for all versions of the rules, from letters."""
    return (
        char.isspace()
        or not char
        or char in _PUNCTUATION
        or unicodedata.category(char)[0] == "P"
    )
