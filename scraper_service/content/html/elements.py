"""Sets of HTML elements, and the roles that class attributes give to elements."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements that are never content.
DROPPED = _names(
    "script style template svg noembed noframes object applet canvas map link meta base "
    "basefont title"
)
# Elements that the Markdown omits.
SKIPPED = _names(
    "select textarea datalist script style template svg noscript head title"
)
BLOCKS = _names(
    "address article aside blockquote body caption center dd details dialog dir div dl "
    "dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr "
    "legend li listing main menu nav ol optgroup option p plaintext pre search section "
    "summary table tbody td tfoot th thead tr ul xmp"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
# HTML allows their end tags to be omitted, so that counting tags overrates their depth.
UNCOUNTED = VOID | _names("p li dt dd tr td th option thead tbody html head body")


KATEX, MATHJAX, PREVIEW = "katex", "mathjax", "preview"
MATHS_RENDERED = frozenset({KATEX, MATHJAX, PREVIEW})
TITLE = "title"
MAX_NAMES = 300  # characters read of a class attribute

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
# GitHub's five kinds of callouts.
_KINDS = {
    **dict.fromkeys(("note", "info", "seealso", "abstract", "todo"), "NOTE"),
    **dict.fromkeys(("tip", "hint", "success"), "TIP"),
    "important": "IMPORTANT",
    **dict.fromkeys(("warning", "attention"), "WARNING"),
    **dict.fromkeys(("caution", "danger", "error"), "CAUTION"),
}


def role(element: Any) -> str | None:
    """Return a rendered formula's role, ``TITLE``, a callout's kind, or None."""
    names = element.get("class")
    return role_of(names[:MAX_NAMES]) if names else None


@lru_cache(maxsize=2048)
def role_of(names: str) -> str | None:
    """Return the same as :func:`role` for a class attribute, already cut to length."""
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
