"""What the ``<style>`` elements of a page hide, by simple selectors.

Style sheets of their own are not fetched. The search is bounded, and finds the rules by
the declarations that hide: parsing all of a page's CSS takes longer than its HTML.
"""

from __future__ import annotations

import re
from typing import Any

from scraper_service.content.html.hidden.declarations import Hiding, hiding

MAX_SHEETS = 50
MAX_CSS = 1_000_000  # characters of a page
MAX_RULES = 500
MAX_SELECTOR = 2000  # characters

# What is looked for first; :func:`hiding` then reads the whole rule. Each begins with the
# colon, as a search for one character is far faster than one for many names.
_SIGNS = re.compile(
    r":(?:(?<=[y\s]:)\s*(?:none|hidden|0\s*[;}!])|(?<=[e\s]:)\s*0|(?<=[t\s]:)\s*0\s*[;}!]"
    r"|(?<=[hp\s]:)\s*(?:rect|inset|circle)|\s*-\d{3})"
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SIMPLE = re.compile(r"([a-z][\w-]*)?((?:[.#][\w-]+)*)", re.IGNORECASE)

# The tag or "", the classes and ``#id`` that an element must have, and how it is hidden.
RuleT = tuple[str, frozenset[str], Hiding]


def sheet_rules(styles: list[Any]) -> list[RuleT]:
    """Return the rules that hide elements, from ``<style>`` elements; of no at-rule."""
    rules: list[RuleT] = []
    left = MAX_CSS
    for style in styles[:MAX_SHEETS]:
        text = (style.text or "")[:left]
        left -= len(text)
        if text and style.get("media", "all").strip().lower() in {"all", "screen", ""}:
            _take(text, rules)
    return rules


def _take(css: str, rules: list[RuleT]) -> None:
    if "/*" in css:
        css = _COMMENT.sub(" ", css)
    counted = depth = looked = 0
    for sign in _SIGNS.finditer(css):
        start = css.rfind("{", looked, sign.start())
        looked = sign.start()
        if start < 0:
            continue  # of the same rule as the sign before
        end = css.find("}", start)
        if end < 0 or len(rules) >= MAX_RULES:
            return
        depth += css.count("{", counted, start) - css.count("}", counted, start)
        counted = start
        if depth:
            continue  # a rule for some screens only
        kind = hiding(css[start + 1 : end].strip())
        if kind:
            earliest = max(0, start - MAX_SELECTOR)
            begin = max(css.rfind(end, earliest, start) for end in "};") + 1
            for selector in css[begin:start].split(","):
                _add(selector.strip(), kind, rules)


def _add(selector: str, kind: Hiding, rules: list[RuleT]) -> None:
    match = _SIMPLE.fullmatch(selector)
    if not match or not selector:
        return
    names = re.findall(r"\.[\w-]+|#[\w-]+", match[2])
    if names:  # a bare tag is in many places
        parts = frozenset(name.removeprefix(".") for name in names)
        rules.append(((match[1] or "").lower(), parts, kind))
