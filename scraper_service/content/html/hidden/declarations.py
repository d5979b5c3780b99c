"""Which CSS declarations keep an element from being seen."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

MAX_STYLE = 4000  # characters


class Hiding(IntEnum):
    """How an element is hidden: the surer, the higher.

    What ``MAYBE`` is, scripts often bring in; ``CLOSED`` may be opened by a reader;
    ``UNSEEN`` is laid out where nobody can see it.
    """

    NOT = 0
    MAYBE = 1
    CLOSED = 2
    UNSEEN = 3


_OFF = r"-(?:\d{4,}|9\d\d|\d{3,}(?=\s*r?em|\s*vw|\s*vh))"
_NIL = r"0*\.?0*(?:px|em|rem|%|pt)?\s*(?:!important)?\s*(?:;|$)"
# Read in this order, by the names of properties; a declaration counts at its start, not
# within another's name.
_RULES = (
    (Hiding.CLOSED, "content-visibility", r"hidden"),
    (Hiding.UNSEEN, "left top right bottom margin-left margin-top", _OFF),
    (Hiding.UNSEEN, "text-indent", rf"(?:{_OFF}|-100%)"),
    (
        Hiding.UNSEEN,
        "clip",
        r"rect\(\s*[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01]",
    ),
    (Hiding.UNSEEN, "clip-path", r"(?:inset\(\s*(?:50|100)%|circle\(\s*0)"),
    (Hiding.UNSEEN, "font-size", _NIL),
    (Hiding.UNSEEN, "font-size", r"(?:0?\.\d+|1)px"),
    (Hiding.UNSEEN, "transform", r"scale\(\s*0(?:\.0+)?\s*\)"),
    (Hiding.MAYBE, "opacity", _NIL),
)
_PATTERNS = tuple(
    (
        kind,
        frozenset(names.split()),
        re.compile(
            rf"(?:^|[;\s{{])(?:{'|'.join(names.split())})\s*:\s*{value}", re.IGNORECASE
        ),
    )
    for kind, names, value in _RULES
)
# Of several, the last one counts.
_SWITCHES = re.compile(
    r"(?:^|[;\s{])(display|visibility)\s*:\s*([a-z-]+)", re.IGNORECASE
)
_OFF_VALUES = frozenset(
    {("display", "none"), ("visibility", "hidden"), ("visibility", "collapse")}
)
_NAME = re.compile(r"(?:^|[;\s{])([a-zA-Z-]+)\s*:")
_SIZES = frozenset({"width", "height", "max-width", "max-height"})
_SMALL = re.compile(
    r"(?:^|[;\s])(?:max-)?(?:width|height)\s*:\s*(?:0(?:px|%)?|1px)\s*(?:!important)?\s*(?:;|$)",
    re.IGNORECASE,
)
_CUT = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)
_MOVING = re.compile(
    r"transform|transition|animation|will-change|filter", re.IGNORECASE
)
# What grows when a reader opens it.
_FOLDED = re.compile(r"transition(?:-property)?\s*:[^;]*height", re.IGNORECASE)
_COLOUR = re.compile(r"(?:^|[;\s])color\s*:\s*([^;!]+)", re.IGNORECASE)
_GROUND = re.compile(r"(?:^|[;\s])background(?:-color)?\s*:\s*([^;!]+)", re.IGNORECASE)
_NAMED = {"white": "#ffffff", "black": "#000000", "red": "#ff0000", "yellow": "#ffff00"}
_RGB = re.compile(r"rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})")


@lru_cache(maxsize=5_000)
def hiding(style: str) -> Hiding:
    """Return how declarations hide their element. Colours are those of one element."""
    style = style[:MAX_STYLE]
    names = {name.lower() for name in _NAME.findall(style)}
    if not names.isdisjoint({"display", "visibility"}):
        last = {name.lower(): v.lower() for name, v in _SWITCHES.findall(style)}
        if not _OFF_VALUES.isdisjoint(last.items()):
            return _closed(style)
    for kind, wanted, pattern in _PATTERNS:
        if not wanted.isdisjoint(names) and pattern.search(style):
            if kind is not Hiding.MAYBE:
                return kind
            return Hiding.NOT if _MOVING.search(style) else kind
    if not _SIZES.isdisjoint(names) and _CUT.search(style) and _SMALL.search(style):
        return _closed(style)
    if "color" not in names:
        return Hiding.NOT
    ink, ground = ink_of(style), ground_of(style)
    return Hiding.UNSEEN if ink and ink == ground else Hiding.NOT


def _closed(style: str) -> Hiding:
    return Hiding.NOT if _FOLDED.search(style) else Hiding.CLOSED


@lru_cache(maxsize=5_000)
def ink_of(style: str) -> str | None:
    """Return the colour of text as ``#rrggbb``; None if the style does not say."""
    return _colour(style[:MAX_STYLE], _COLOUR)


@lru_cache(maxsize=5_000)
def ground_of(style: str) -> str | None:
    """Return the colour of the background likewise; of a picture there is none."""
    return _colour(style[:MAX_STYLE], _GROUND)


def _colour(style: str, pattern: re.Pattern[str]) -> str | None:
    found = pattern.search(style)
    if not found:
        return None
    text = found[1].strip().lower()
    if text in _NAMED:
        return _NAMED[text]
    if match := _RGB.match(text):
        return "#" + "".join(f"{min(255, int(part)):02x}" for part in match.groups())
    if re.fullmatch(r"#[0-9a-f]{3}", text):
        return "#" + "".join(2 * digit for digit in text[1:])
    return text if re.fullmatch(r"#[0-9a-f]{6}", text) else None
