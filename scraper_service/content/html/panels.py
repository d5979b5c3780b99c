"""Tells the hidden panels that a click opens from menus, dialogs and other overlays.

A panel is content if a control of the page names it, or if it is one of a set of tabs.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.html.document import drop
from scraper_service.content.html.elements import MAX_NAMES
from scraper_service.content.passes import Finder, marked, texts_in

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PANELS = 1_000  # hidden elements of a page that are examined
MAX_CONTROLS = 5_000
MAX_TABLIST = 60  # elements searched for the list of tabs
MENU_SHARE = 0.8  # of the words that are links
REAL_WORDS = 3
REAL_CHARACTERS = 12  # of a text without spaces
_holds_code = Finder("pre")
_TABS = re.compile(
    r"(?:^|[\s_-])(?:tabs?|tabbed|tab-?(?:content|panels?|panes?|set|group|container)"
    r"|code-?(?:group|tabs|switcher))(?=$|[\s_-])",
    re.IGNORECASE,
)
_OVERLAY = re.compile(
    r"(?<![a-z])(?:modals?|dialogs?|pop-?ups?|pop-?overs?|overlays?|lightbox|drawers?|"
    r"off-?canvas|sidebar|side-?nav|(?:mega|sub)?-?menus?|nav|navbar|navigation|"
    r"drop-?downs?|tool-?tips?|tippy|cookies?|consent|gdpr|ccpa|search|searchbox|"
    r"languages|lang(?:uage)?-?(?:picker|switch\w*|select\w*|list|chooser)|locales?|"
    r"picker|list-?box|combobox|auto-?complete|suggest(?:ions?)?|typeahead|toasts?|"
    r"snackbar|flyout|hamburger|login|sign-?in|sign-?up|cart|basket|minicart|newsletter|"
    r"share|templates?|skeleton|spinner|loader|loading|errors?|alerts?|validation)(?![a-z])"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OVERLAY_TAGS = frozenset({"nav", "dialog", "header", "footer", "aside"})
_OVERLAY_ROLES = frozenset(
    "navigation menu menubar banner listbox dialog alertdialog alert status tooltip search "
    "combobox".split()
)
_POPUPS = frozenset({"modal", "offcanvas", "dropdown", "popover", "tooltip"})
_CONTROLLING = ("aria-controls", "data-target", "data-bs-target", "data-tab")
_NAMING = (*_CONTROLLING, "href")
_SEARCHES = etree.XPath("boolean(.//input[@type='search'] | .//*[@role='search'])")


class Panels:
    """The hidden elements of a page that clicks open."""

    def __init__(self, body: Any):
        self._body = body
        self._ids: frozenset[str] | None = None
        self._left = MAX_PANELS
        self._gone: set[Any] = set()

    def open(self, element: Any) -> bool:
        """Return True if a control names the element, or if it is one of a set of tabs."""
        self._left -= 1
        if self._left < 0 or is_overlay(element):
            return False
        if own := element.get("id"):
            if self._ids is None:
                self._ids = _opened_ids(self._body)
            if own in self._ids:
                return True
        return _is_tab(element)

    def drop(self, element: Any) -> None:
        """Remove an element from the page."""
        drop(element)
        self._gone.add(element)

    def are_gone_around(self, element: Any) -> bool:
        """Return True if an element around ``element`` was removed."""
        return not self._gone.isdisjoint(element.iterancestors())


def _opened_ids(body: Any) -> frozenset[str]:
    """Return the ids of the elements that controls of the page open.

    Controls of menus, dialogs and lists of options do not count.
    """
    found: set[str] = set()
    links = (a for a in body.iter("a") if (a.get("href") or "")[:1] == "#")
    controls = chain(marked(body, (), _CONTROLLING), links)
    for control in islice(controls, MAX_CONTROLS):
        attributes = control.attrib
        if "aria-haspopup" in attributes:
            continue
        kind = attributes.get("data-toggle") or attributes.get("data-bs-toggle")
        is_tab = attributes.get("role") == "tab" or kind in {"tab", "pill"}
        if (
            kind in _POPUPS
            or attributes.get("role") == "combobox"
            or (not is_tab and _is_in_overlay(control))
        ):
            continue
        for name in _NAMING:
            value = attributes.get(name)
            if value and (name != "href" or value[0] == "#"):
                found.update(part.removeprefix("#") for part in value.split()[:10])
    return frozenset(found)


def _is_tab(element: Any) -> bool:
    """Return True for one of a set of tabs, or of samples of code."""
    above = element.getparent()
    if _is_sample(element) and any(map(_is_sample, _beside(element))):
        return True
    for holder in (above, None if above is None else above.getparent()):
        if holder is None or holder.tag in {"body", "main", "html"}:
            return False
        if _TABS.search(_names_of(holder)) or any(
            part.get("role") == "tablist" for part in islice(holder.iter(), MAX_TABLIST)
        ):
            return True
    return False


def is_overlay(element: Any) -> bool:
    """Return True for dialogs, menus, banners, tooltips, searches and the like."""
    names = _CAMEL.sub("-", _names_of(element)).lower()
    if (
        _OVERLAY.search(names)
        or element.tag == "form"
        or "aria-modal" in element.attrib
    ):
        return True
    return bool(_is_in_overlay(element) or _SEARCHES(element) or _is_menu(element))


def is_real_text(words: list[str]) -> bool:
    """Return True for a text that says more than a label or a sign does."""
    return len(words) >= REAL_WORDS or any(len(w) >= REAL_CHARACTERS for w in words)


def _is_sample(element: Any) -> bool:
    return element.tag == "pre" or _holds_code(element)


def _beside(element: Any) -> Iterator[Any]:
    """Yield the nearest siblings of the same kind: all siblings would take too long."""
    for preceding in (True, False):
        yield from islice(element.itersiblings(element.tag, preceding=preceding), 1)


def _names_of(element: Any) -> str:
    attributes = element.attrib
    return f"{attributes.get('class', '')[:MAX_NAMES]} {attributes.get('id', '')[:MAX_NAMES]}"


def _is_in_overlay(element: Any) -> bool:
    while element is not None:
        if element.tag in _OVERLAY_TAGS or element.get("role") in _OVERLAY_ROLES:
            return True
        element = element.getparent()
    return False


def _is_menu(element: Any) -> bool:
    """Return True if an element holds links and little else."""
    inside = sum(len(t.split()) for a in element.iter("a") for t in texts_in(a))
    if not inside:
        return False
    return inside >= MENU_SHARE * sum(len(t.split()) for t in texts_in(element))
