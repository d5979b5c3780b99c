"""Which elements of a page no reader sees."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.hidden.declarations import (
    Hiding,
    ground_of,
    hiding,
    ink_of,
)
from scraper_service.content.html.hidden.sheets import sheet_rules
from scraper_service.content.passes import compiled, finder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

# Names that style sheets hide from the eye and leave to screen readers.
_SPOKEN = frozenset(
    "sr-only visually-hidden visuallyhidden screen-reader-text screen-reader-only "
    "a11y-hidden assistive-text element-invisible u-visually-hidden u-hidden-visually "
    "screenreader-only visually-hidden-focusable sr-only-focusable".split()
)
# What a reader opens with a click: its text is part of the page.
_OPENED = re.compile(
    r"(?:^|[\s_-])(?:tabs?|tab-?pane|tab-?panel|tab-?content|panel|accordion|collapse|"
    r"collapsible|collapsed|toggle|expand|expandable|expander|faq|answer|details|spoiler|"
    r"read-?more|show-?more|more-?text)(?=$|[\s_-])",
    re.IGNORECASE,
)
# Nor what scripts bring in when the reader comes to it.
_SHOWN = frozenset(
    "active show shown open opened visible in current is-active is-open is-visible "
    "selected fade animated aos-init wow reveal animate elementor-invisible".split()
)
_MOVED = (
    "data-w-id",
    "data-aos",
    "data-framer-name",
    "data-framer-appear-id",
    "data-animation",
)
# The numbers of lines of code.
_GUTTER = re.compile(
    r"(?<![\w-])(?:gutter|linenos?|line-numbers-rows|lineno|rouge-gutter)(?![\w-])"
)
_NUMBERED = frozenset({"td", "span", "div", "pre"})
_HEADINGS = frozenset({"h1", "h2", "title"})
# What is opened there leads elsewhere, or asks something.
_MENUS = frozenset({"nav", "header", "dialog", "form", "aside"})
_MENU_ROLES = frozenset(
    "navigation menu menubar banner listbox dialog alertdialog tooltip search".split()
)
MAX_SWITCH = 20  # elements before a hidden one in which its switch is looked for
_holds_title = finder("h1")
_NEVER = frozenset({"body", "main", "html", "head"})


class HidingRules:
    """What the styles of a page, in its elements and ``<style>``, keep from being seen."""

    def __init__(self, styles: list[Any]):
        self._rules = sheet_rules(styles)
        self._parts = frozenset(p for _, parts, _ in self._rules for p in parts)
        self._ids = frozenset(part[1:] for part in self._parts if part[0] == "#")
        self._watched = self._parts | _SPOKEN

    def hidden(self, body: Any) -> dict[Any, Hiding]:
        """Return which elements are hidden themselves, not by what they are in.

        A ``span`` that is drawn as a block becomes a ``div``.
        """
        found: dict[Any, Hiding] = {}
        suspects = _suspects if compiled is None else compiled.suspects
        for element, names, watched, own, style, attribute in suspects(
            body, self._is_watched, self._ids
        ):
            tag = element.tag
            kind = self._looked_up(tag, names, "") if watched else Hiding.NOT
            if own is not None:
                kind = self._looked_up(tag, names, f"#{own}")
            if (
                (style or kind or attribute is not None)
                and tag not in _NEVER
                and (kind := _decided(element, kind, style or "", attribute))
            ):
                found[element] = kind
            if style and tag == "span" and "display:block" in style.replace(" ", ""):
                element.tag = "div"
        return found

    def _is_watched(self, names: str) -> bool:
        return not self._watched.isdisjoint(names.split()) or _is_gutter(names)

    def _looked_up(self, tag: str, names: str | None, name: str) -> Hiding:
        parts = set((names or "").split())
        if not _SPOKEN.isdisjoint(parts):
            return Hiding.NOT if tag in _HEADINGS else Hiding.UNSEEN
        if tag in _NUMBERED and names and _is_gutter(names):
            return Hiding.UNSEEN
        parts.add(name)
        if self._parts.isdisjoint(parts) or not _SHOWN.isdisjoint(parts):
            return Hiding.NOT
        for rule_tag, needed, kind in self._rules:
            if needed <= parts and rule_tag in {"", tag}:
                return kind
        return Hiding.NOT


# An element, its class, whether that is watched, its id if that is, its style, and its
# attribute ``hidden``.
Suspect = tuple[Any, str | None, bool, str | None, str | None, str | None]


def _suspects(
    body: Any, is_watched: Callable[[str], bool], ids: Collection[str]
) -> Iterator[Suspect]:
    """Yield the few elements that may be hidden themselves."""
    harmless: set[str | None] = {None}  # classes, as most are of any tag
    for element in body.iter():
        get = element.get
        names, style, attribute = get("class"), get("style"), get("hidden")
        watched = False
        if names not in harmless:
            watched = is_watched(names)
            if not watched:
                harmless.add(names)
        own = get("id") if ids else None
        if own not in ids:
            own = None
        if watched or own is not None or style or attribute is not None:
            yield element, names, watched, own, style, attribute


def _is_gutter(names: str) -> bool:
    return ("line" in names or "gutter" in names) and bool(_GUTTER.search(names))


def _decided(element: Any, kind: Hiding, style: str, attribute: str | None) -> Hiding:
    """Return how an element is hidden whose class says ``kind``."""
    if attribute is not None and attribute != "until-found":
        return Hiding.CLOSED
    if found := hiding(style) if style else Hiding.NOT:
        return found
    if "color" in style and _same_colour(element, style):
        return Hiding.UNSEEN
    return Hiding.NOT if kind and style and _is_shown(style) else kind


def may_be_shown(element: Any, kind: Hiding) -> bool:
    """Tell whether a reader can open the element, or a script moves it into view.

    An ``h1`` that is not closed is either moved in, or stands for a title in a picture.
    """
    if kind is Hiding.CLOSED:
        return _is_opened(element)
    if element.tag == "h1" or (kind is Hiding.MAYBE and _holds_title(element)):
        return True
    return kind is Hiding.MAYBE and any(name in element.attrib for name in _MOVED)


def _is_opened(element: Any) -> bool:
    attributes = element.attrib
    if attributes.get("role") == "tabpanel" or element.tag == "details":
        return True
    names = f"{attributes.get('class', '')} {attributes.get('id', '')}"
    if names != " " and _OPENED.search(names):
        return True
    above = element.getparent()
    if above is not None and above.tag == "details":
        return True
    return (
        "aria-labelledby" in attributes
        or attributes.get("role") == "region"
        or _has_switch(element)
    ) and not _in_menu(element)


def _has_switch(element: Any) -> bool:
    """Tell whether what stands just before the element says that it can be expanded."""
    before = element.getprevious()
    if before is None and (above := element.getparent()) is not None:
        before = above.getprevious()
    if before is None:
        return False
    return any("aria-expanded" in e.attrib for e in islice(before.iter(), MAX_SWITCH))


def _in_menu(element: Any) -> bool:
    return any(
        e.tag in _MENUS or e.get("role") in _MENU_ROLES
        for e in chain((element,), element.iterancestors())
    )


def _is_shown(style: str) -> bool:
    style = style.replace(" ", "").lower()
    return ("display:" in style and "display:none" not in style) or (
        "visibility:visible" in style
    )


def _same_colour(element: Any, style: str) -> bool:
    """Tell whether text has the colour of what declares a background around it."""
    ink = ink_of(style)
    if ink is None:
        return False
    for above in element.iterancestors():
        ground = ground_of(above.get("style", ""))
        if ground is not None:
            return ground == ink
        if "background" in above.get("style", ""):
            return False
    return False
