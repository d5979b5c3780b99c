"""What the ``<style>`` elements and ``style`` attributes of a page declare.

Only what tells how a brand looks is read: rules for all screens, by simple selectors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SHEETS = 50
MAX_CSS = 1_000_000  # characters of a page
MAX_RULES = 20_000
MAX_INLINE = 2000  # elements whose attribute is read
MAX_BLOCK = 20_000  # characters between braces
MAX_SELECTOR = 2000
MAX_STEPS = 8  # of variables that name each other

_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*(?:\([^()]*\))?[^()]*))?\)")
_ROOTS = frozenset({":root", "html", "body", ":host", ":root,:host", "*"})


@define
class Styles:
    """Declarations by selector, the later ones winning, and variables of the root."""

    variables: dict[str, str] = field(factory=dict)
    faces: list[str] = field(factory=list)  # families that are loaded
    _rules: dict[str, dict[str, str]] = field(factory=dict)

    def value(self, name: str, *selectors: str) -> str | None:
        """Return what the first of ``selectors`` that says anything says of ``name``."""
        for selector in selectors:
            found = self._rules.get(selector, {}).get(name)
            if found is not None and (text := self.resolved(found)):
                return text
        return None

    def like(self, name: str, *patterns: re.Pattern[str]) -> Iterator[str]:
        """Yield the values of a property under selectors that match all patterns."""
        for selector, declared in self._rules.items():
            if name in declared and all(each.search(selector) for each in patterns):
                yield self.resolved(declared[name])

    def resolved(self, text: str) -> str:
        """Return a value with its variables put in."""
        for _ in range(MAX_STEPS):
            if "var(" not in text:
                return text.strip()
            text = _VARIABLE.sub(
                lambda m: self.variables.get(m[1]) or m[2] or "", text[:2000]
            )
        return ""

    def take(self, css: str) -> None:
        """Read the rules of a sheet."""
        for number, (selectors, block) in enumerate(_rules(_for_all(_bare(css)))):
            if number >= MAX_RULES:
                return
            declared = declarations(block)
            for selector in selectors.split(","):
                name = " ".join(selector.split()).lower()
                if name == "@font-face":
                    self.faces += filter(None, [declared.get("font-family")])
                    continue
                if name in _ROOTS:
                    variables = {k: v for k, v in declared.items() if k[:2] == "--"}
                    self.variables.update(variables)
                self._rules.setdefault(name, {}).update(declared)


def styles_of(root: Any, looks: str = "") -> Styles:
    """Read the style sheets inside a page, then ``looks``, which wins."""
    found = Styles()
    left = MAX_CSS
    for style in list(root.iter("style"))[:MAX_SHEETS]:
        text = (style.text or "")[:left]
        left -= len(text)
        media = (style.get("media") or "all").strip().lower()
        if text and media in {"all", "screen", ""}:
            found.take(text)
    found.take(looks)
    return found


def declarations(text: str) -> dict[str, str]:
    """Return the declarations of a block, names in lower case."""
    found = {}
    for part in text[:MAX_BLOCK].split(";"):
        name, colon, value = part.partition(":")
        if colon and (name := name.strip()):
            value = value.replace("!important", "").strip()
            found[name if name[:2] == "--" else name.lower()] = value
    return found


# Searches for single characters: a pattern would look from each character to the end.


def _bare(css: str) -> str:
    """Return a sheet without comments."""
    parts, at = [], 0
    while (start := css.find("/*", at)) >= 0:
        parts.append(css[at:start])
        if (end := css.find("*/", start + 2)) < 0:
            return " ".join(parts)
        at = end + 2
    return " ".join([*parts, css[at:]])


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and block of each rule; of nested ones the inner ones."""
    at = 0
    while (end := css.find("}", at)) >= 0:
        start = css.rfind("{", at, end)
        if start >= 0:
            earliest = max(at, start - MAX_SELECTOR)
            begin = max(css.rfind(c, earliest, start) for c in "{};") + 1
            yield css[max(begin, earliest) : start], css[start + 1 : end]
        at = end + 1


def _for_all(css: str) -> str:
    """Return a sheet without at-rules; what layers hold stays."""
    parts: list[str] = []
    at = 0
    while (start := css.find("@", at)) >= 0:
        brace = css.find("{", start)
        if brace < 0:
            break
        if (stop := css.find(";", start, brace)) >= 0:  # @import and the like
            parts.append(css[at:start])
            at = stop + 1
            continue
        parts.append(css[at:start])
        end = _closing(css, brace + 1)
        name = css[start : start + 12].lower()
        if name.startswith("@font-face"):
            parts.append(css[start:end])
        elif name.startswith(("@layer", "@supports")):
            parts.append(css[brace + 1 : end - 1])
        at = end
    return "".join([*parts, css[at:]])


def _closing(css: str, start: int) -> int:
    """Return where a block ends whose first character is at ``start``."""
    depth, at = 1, start
    opens = css.find("{", at)
    while depth:
        closes = css.find("}", at)
        if closes < 0:
            return len(css)
        if 0 <= opens < closes:
            depth, at = depth + 1, opens + 1
            opens = css.find("{", at)
        else:
            depth, at = depth - 1, closes + 1
    return at
