"""Reads the rules of a page's ``<style>`` elements that display elements or give text a size.

Rules count if their selectors are simple, and their at-rules for large screens. The search
is bounded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SHEETS = 50
MAX_CSS = 1_000_000  # characters of a page
MAX_SELECTOR = 2000  # characters
MAX_SWITCHES = 5_000  # declarations of display and visibility
MAX_AT_RULES = 20  # inside each other
COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)  # one without end ends the sheet
SELECTOR_NAME = re.compile(r"[.#][\w-]+")
# The same with names as of Tailwind, such as ``md:block``, without their backslashes.
_LATER = re.compile(r"([a-z][\w-]*)?((?:[.#][\w:/-]+)+)")
_PART = re.compile(r"[.#][\w:/-]+")
# The last of several declarations counts.
SWITCHES = re.compile(
    r"(?:^|[;\s{])(display|visibility)\s*:\s*([a-z-]+)", re.IGNORECASE
)
# A size that does not depend on the size around.
SIZED = re.compile(
    r"(?:^|[;\s{])font-size\s*:\s*(?:[\d.]{0,6}[1-9][\d.]{0,6}(?:px|pt|rem|v[wh])"
    r"|(?:x{1,2}-)?(?:small|large)|medium|calc|clamp|var)",
    re.IGNORECASE,
)


def sheets(styles: list[Any]) -> Iterator[str]:
    """Yield the texts of the ``<style>`` elements for all screens."""
    left = MAX_CSS
    for style in styles[:MAX_SHEETS]:
        text = (style.text or "")[:left]
        left -= len(text)
        if text and style.get("media", "all").strip().lower() in {"all", "screen", ""}:
            yield text


class Switch(NamedTuple):
    """A declaration of ``display`` or ``visibility`` of a rule."""

    weight: tuple[Any, ...]
    tag: str
    #: The required classes and ``#id``.
    parts: set[str]
    name: str
    value: str


def switches(styles: list[Any]) -> list[Switch]:
    """Return the rules with ``display`` or ``visibility`` on large screens, the weakest first.

    Return none if they are too many.
    """
    found: list[Switch] = []
    at_rules: list[bool] = []  # those around a rule: are they for large screens
    for block in COMMENT.sub(" ", "".join(sheets(styles))).split("}"):
        *around, declarations = block.split("{")
        if not around:
            at_rules[-1:] = []
            continue
        at_rules += ["min-width" in at and "max-" not in at for at in around[:-1]]
        may_switch = "isplay" in declarations or "isibility" in declarations
        named = SWITCHES.findall(declarations) if may_switch and all(at_rules) else []
        selectors = around[-1][-MAX_SELECTOR:].rpartition(";")[2].replace("\\", "")
        for selector in selectors.split(",") if named else ():
            if match := _LATER.fullmatch(selector.strip()):
                parts = {p.removeprefix(".") for p in _PART.findall(match[2])}
                is_strong = "!important" in declarations
                weight = is_strong, "#" in match[2], len(parts), bool(match[1])
                tag = (match[1] or "").lower()
                found += [Switch(weight, tag, parts, *each) for each in named[-2:]]
        if len(found) > MAX_SWITCHES or len(at_rules) > MAX_AT_RULES:
            return []
    return sorted(found, key=lambda switch: switch.weight)


def sized_names(styles: list[Any]) -> frozenset[str]:
    """Return the class names in selectors of the rules that give text a size."""
    found: set[str] = set()
    for css in sheets(styles):
        for block in css.split("}"):
            selector, _, declarations = block.rpartition("{")
            if SIZED.search(declarations):
                names = SELECTOR_NAME.findall(selector[-MAX_SELECTOR:])
                found.update(name[1:] for name in names)
    return frozenset(found)
