"""What the classes of an element say it is: a formula as drawn, a callout."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

KATEX, MATHJAX, PREVIEW = "katex", "mathjax", "preview"
MATHS_RENDERED = frozenset({KATEX, MATHJAX, PREVIEW})
TITLE = "title"
MAX_NAMES = 300  # characters of a class attribute that are looked at

_MATHJAX = frozenset(
    {
        "mathjax",
        "mathjax_display",
        "mathjax_svg",
        "mathjax_svg_display",
        "mathjax_chtml",
    }
)
_TITLES = frozenset({"admonition-title", "markdown-alert-title", "callout-title"})
_CALLOUTS = frozenset(
    {"admonition", "markdown-alert", "theme-admonition", "callout", "notecard"}
)
_KIND = re.compile(
    r"(?:markdown-alert-|theme-admonition-|admonition-|callout-|callout--)?([a-z]+)"
)
# The five kinds that GitHub knows.
_KINDS = {
    **dict.fromkeys(("note", "info", "seealso", "abstract", "todo"), "NOTE"),
    **dict.fromkeys(("tip", "hint", "success"), "TIP"),
    "important": "IMPORTANT",
    **dict.fromkeys(("warning", "attention"), "WARNING"),
    **dict.fromkeys(("caution", "danger", "error"), "CAUTION"),
}


def role(element: Any) -> str | None:
    """Return one of the constants above, a kind of callout, or None."""
    names = element.get("class")
    return role_of(names[:MAX_NAMES]) if names else None


@lru_cache(maxsize=2048)
def role_of(names: str) -> str | None:
    """Return the same for classes, of which no more than these are looked at."""
    words = names.lower().split()
    if not words:
        return None
    if "katex" in words:
        return KATEX
    if "mathjax_preview" in words:
        return PREVIEW
    if not _MATHJAX.isdisjoint(words):
        return MATHJAX
    if not _TITLES.isdisjoint(words) or words[0].startswith("admonitionheading"):
        return TITLE
    if not _CALLOUTS.isdisjoint(words):
        kinds = (_KINDS.get(m[1]) for w in words if (m := _KIND.fullmatch(w)))
        return next((kind for kind in kinds if kind), None)
    return None
