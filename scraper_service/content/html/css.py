"""Parses the CSS of a page that describes the look of a brand.

Sources are ``<style>`` elements and ``style`` attributes. Only rules for all screens
with simple selectors count. Colours become ``#RRGGBB``. tinycss2 parses; it is slower
than the search of ``hidden_text``, which runs on every page.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import define, field
from tinycss2 import (
    parse_blocks_contents,
    parse_component_value_list,
    parse_declaration_list,
    parse_rule_list,
    parse_stylesheet,
    serialize,
)
from tinycss2.color4 import parse_color

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SHEETS = 50
MAX_CSS = 500_000  # characters of a page; 1 s to parse
MAX_RULES = 20_000
MAX_INLINE = 2000  # elements whose ``style`` attribute is parsed
MAX_BLOCK = 20_000  # characters between braces
MAX_SELECTOR = 2000
MAX_STEPS = 8  # variables that refer to variables

_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*(?:\([^()]*\))?[^()]*))?\)")
_ROOTS = frozenset({":root", "html", "body", ":host", ":root,:host", "*"})


@define
class Styles:
    """CSS declarations by selector, and the root's variables. Later declarations win."""

    #: CSS variables of the root element.
    variables: dict[str, str] = field(factory=dict)
    #: Font families that ``@font-face`` rules load.
    faces: list[str] = field(factory=list)
    _rules: dict[str, dict[str, str]] = field(factory=dict)

    def value(self, name: str, *selectors: str) -> str | None:
        """Return a property's value under the first selector that declares it."""
        for selector in selectors:
            found = self._rules.get(selector, {}).get(name)
            if found is not None and (text := self.resolve(found)):
                return text
        return None

    def like(self, name: str, *patterns: re.Pattern[str]) -> Iterator[str]:
        """Yield the values of a property under selectors that match all patterns."""
        for selector, declared in self._rules.items():
            if name in declared and all(each.search(selector) for each in patterns):
                yield self.resolve(declared[name])

    def resolve(self, text: str) -> str:
        """Return a value with its variables replaced, empty for endless references."""
        for _ in range(MAX_STEPS):
            if "var(" not in text:
                return text.strip()
            text = _VARIABLE.sub(
                lambda m: self.variables.get(m[1]) or m[2] or "", text[:2000]
            )
        return ""

    def take(self, css: str) -> None:
        """Add the rules of a style sheet."""
        for rule in islice(_rules(css), MAX_RULES):
            declared = _declared(parse_blocks_contents(rule.content or []))
            if rule.type == "at-rule":
                self.faces += filter(None, [declared.get("font-family")])
                continue
            for selector in _text(rule.prelude)[:MAX_SELECTOR].split(","):
                name = " ".join(selector.split()).lower()
                if name in _ROOTS:
                    variables = {k: v for k, v in declared.items() if k[:2] == "--"}
                    self.variables.update(variables)
                self._rules.setdefault(name, {}).update(declared)


def styles_of(root: Any, looks: str = "") -> Styles:
    """Parse the style sheets of a page, then the browser's styles ``looks``, which win."""
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


def declarations(css: str) -> dict[str, str]:
    """Return the declarations of a block, with names in lower case; the last one wins."""
    return _declared(parse_declaration_list(css[:MAX_BLOCK], skip_comments=True))


def _declared(nodes: list[Any]) -> dict[str, str]:
    return {
        node.name if node.name.startswith("--") else node.lower_name: _text(node.value)
        for node in nodes
        if node.type == "declaration"
    }


def _text(nodes: list[Any]) -> str:
    try:
        return str(serialize(nodes)).strip()
    except RecursionError:  # thousands of nested brackets
        return ""


def _rules(css: str) -> Iterator[Any]:
    """Yield the rules of a style sheet that count on all screens, and ``@font-face``.

    Rules inside ``@layer`` and ``@supports`` count, those inside other at-rules do not.
    """
    sheets = [iter(parse_stylesheet(css, skip_comments=True, skip_whitespace=True))]
    while sheets:
        rule = next(sheets[-1], None)
        if rule is None:
            sheets.pop()
        elif rule.type == "qualified-rule" or (
            rule.type == "at-rule" and rule.lower_at_keyword == "font-face"
        ):
            yield rule
        elif rule.type == "at-rule" and rule.lower_at_keyword in {"layer", "supports"}:
            inner = parse_rule_list(
                rule.content or [], skip_comments=True, skip_whitespace=True
            )
            sheets.append(iter(inner))


_FAINT = 0.1  # colours with less opacity are ignored
_GREY = 24  # largest difference between the channels of a grey
_SPACES = frozenset({"srgb", "hsl", "hwb"})


def colour(css: str) -> str | None:
    """Return the first colour in a declaration's value as ``#RRGGBB``, or None.

    None too if that colour is transparent, or not of the colour spaces of a screen.
    """
    open_lists = [iter(parse_component_value_list(css[:MAX_BLOCK]))]
    while open_lists:
        node = next(open_lists[-1], None)
        if node is None:
            open_lists.pop()
        elif node.type in {"hash", "ident", "function"}:
            if (found := parse_color(node)) and not isinstance(found, str):
                return _hex_of(found)
            if node.type == "function":  # such as a gradient
                open_lists.append(iter(node.arguments))
    return None


def _hex_of(found: Any) -> str | None:
    if found.alpha < _FAINT or found.space not in _SPACES:
        return None
    channels = found.to("srgb").coordinates
    return "#" + "".join(f"{min(255, max(0, round(255 * x))):02X}" for x in channels)


def is_dark(found: str) -> bool:
    """Return True if light text is readable on a colour, by its luminance."""
    red, green, blue = (int(found[n : n + 2], 16) for n in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 110


def is_grey(found: str) -> bool:
    """Return True if a colour is black, white or a grey."""
    parts = [int(found[n : n + 2], 16) for n in (1, 3, 5)]
    return max(parts) - min(parts) <= _GREY
