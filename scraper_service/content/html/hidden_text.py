"""Finds the elements that a page hides.

Sources are ``hidden`` attributes, ``style`` attributes, known class names, and rules
with simple selectors in ``<style>`` elements. External style sheets are not fetched.
The search in style sheets is bounded. It starts from the declarations that hide, as
parsing all CSS takes longer than parsing the HTML.

A hidden panel that a click opens is content if a control of the page names it, or if it
is one of a set of tabs. Menus, dialogs and other overlays are not.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from lxml import etree

from scraper_service.content.html.document import MAX_NAMES, drop
from scraper_service.content.passes import (
    Finder,
    marked,
    suspects,
    texts_in,
)
from scraper_service.content.words import AnyCase

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


MAX_PANELS = 1_000  # hidden elements of a page that are examined
MAX_CONTROLS = 5_000
MAX_SIZELESS = 500  # elements without a size, and elements inside each
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
MAX_STYLE = 4000  # characters
_OFF = r"-(?:\d{4,}|9\d\d|\d{3,}(?=\s*r?em|\s*vw|\s*vh))"
_ZERO = r"0*\.?0*(?:px|em|rem|%|pt)?\s*(?:!important)?\s*(?:;|$)"
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
# Elements that grow when a reader opens them.
_FOLDED = re.compile(r"transition(?:-property)?\s*:[^;]*height", re.IGNORECASE)
_COLOUR = re.compile(r"(?:^|[;\s])color\s*:\s*([^;!]+)", re.IGNORECASE)
_GROUND = re.compile(r"(?:^|[;\s])background(?:-color)?\s*:\s*([^;!]+)", re.IGNORECASE)
_PICTURE = re.compile(
    r"background(?:-image)?\s*:[^;]*(?:url|gradient)\(", re.IGNORECASE
)
_NAMED = {"white": "#ffffff", "black": "#000000", "red": "#ff0000", "yellow": "#ffff00"}
_RGB = re.compile(r"rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})")
MAX_RULES = 500
# Colons after which a value may hide an element. The pattern begins with the colon, as a
# search for one character is far faster than one for many names.
_HIDING_SIGNS = re.compile(
    r":(?:(?<=[y\s]:)\s*(?:none|hidden|0\s*[;}!])|(?<=[e\s]:)\s*0|(?<=[t\s]:)\s*0\s*[;}!]"
    r"|(?<=[hp\s]:)\s*(?:rect|inset|circle)|\s*-\d{3})"
)
# A bare tag matches too many elements.
_SIMPLE = re.compile(r"([a-z][\w-]*)?((?:[.#][\w-]+)*)", re.IGNORECASE)
# Classes that style sheets hide from the eye but not from screen readers.
_SCREEN_READER_ONLY = frozenset(
    "sr-only visually-hidden visuallyhidden screen-reader-text screen-reader-only "
    "a11y-hidden assistive-text element-invisible u-visually-hidden u-hidden-visually "
    "screenreader-only visually-hidden-focusable sr-only-focusable".split()
)
# Elements that a reader opens with a click: their text is part of the page.
_OPENABLE = AnyCase(
    r"(?:^|[\s_-])(?:tabs?|tab-?pane|tab-?panel|tab-?content|panel|accordion|collapse|"
    r"collapsible|collapsed|toggle|expand|expandable|expander|faq|answer|details|spoiler|"
    r"read-?more|show-?more|more-?text)(?=$|[\s_-])",
)
# Elements that a script shows, or that are shown now.
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
# Every style that hides has one of these parts, and so has one that draws a block.
_STYLE_PARTS = (
    *"none hidden collapse clip font-size scale opacity color block".split(),
    *(f"-{digit}" for digit in range(10)),
)
_HEADINGS = frozenset({"h1", "h2", "title"})
MAX_SWITCH = 20  # elements searched for the switch of the hidden element after them
_holds_title = Finder("h1")
_NEVER = frozenset({"body", "main", "html", "head"})


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
    if _is_sample(element):
        for preceding in (True, False):  # the nearest ones: all would take too long
            near = next(element.itersiblings(element.tag, preceding=preceding), None)
            if near is not None and _is_sample(near):
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
    """Return True if an element contains links and little else."""
    inside = sum(len(t.split()) for a in element.iter("a") for t in texts_in(a))
    if not inside:
        return False
    return inside >= MENU_SHARE * sum(len(t.split()) for t in texts_in(element))


class Hiding(IntEnum):
    """How an element is hidden; a higher value is more certain."""

    NOT = 0
    #: Transparent; scripts often show such elements.
    MAYBE = 1
    #: Not displayed; a reader may be able to open it.
    CLOSED = 2
    #: Text without a size; elements inside may have a size.
    SIZELESS = 3
    #: Laid out where nobody can see it.
    UNSEEN = 4


# Tested in this order, by property names. A declaration matches from its start only, not
# inside a longer name.
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
    (Hiding.SIZELESS, "font-size", _ZERO),
    (Hiding.UNSEEN, "font-size", r"(?:0?\.\d+|1)px"),
    (Hiding.UNSEEN, "transform", r"scale\(\s*0(?:\.0+)?\s*\)"),
    (Hiding.MAYBE, "opacity", _ZERO),
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


@lru_cache(maxsize=5_000)
def hiding(style: str) -> Hiding:
    """Return how a style's declarations hide their element, without regard to others."""
    style = style[:MAX_STYLE]
    names = {name.lower() for name in _NAME.findall(style)}
    if not names.isdisjoint({"display", "visibility"}):
        last = {name.lower(): v.lower() for name, v in SWITCHES.findall(style)}
        if not _OFF_VALUES.isdisjoint(last.items()):
            return _hiding_of_collapsed(style)
    for kind, wanted, pattern in _PATTERNS:
        if not wanted.isdisjoint(names) and pattern.search(style):
            if kind is not Hiding.MAYBE:
                return kind
            return Hiding.NOT if _MOVING.search(style) else kind
    if not _SIZES.isdisjoint(names) and _CUT.search(style) and _SMALL.search(style):
        return _hiding_of_collapsed(style)
    if "color" not in names:
        return Hiding.NOT
    ink, ground = ink_of(style), ground_of(style)
    return Hiding.UNSEEN if ink and ink == ground else Hiding.NOT


def _hiding_of_collapsed(style: str) -> Hiding:
    """Return ``CLOSED``, unless the element unfolds with a transition of its height."""
    return Hiding.NOT if _FOLDED.search(style) else Hiding.CLOSED


@lru_cache(maxsize=5_000)
def ink_of(style: str) -> str | None:
    """Return the text colour as ``#rrggbb``, None if the style declares no colour."""
    return _colour(style[:MAX_STYLE], _COLOUR)


@lru_cache(maxsize=5_000)
def ground_of(style: str) -> str | None:
    """Return the background colour as ``#rrggbb``, None if there is none or a picture."""
    if _PICTURE.search(style[:MAX_STYLE]):
        return None
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


# The tag or ""; the required classes and ``#id``; how the rule hides the element.
RuleT = tuple[str, frozenset[str], Hiding]


def sheet_rules(styles: list[Any]) -> list[RuleT]:
    """Return the hiding rules of ``<style>`` elements, without those of at-rules."""
    rules: list[RuleT] = []
    for text in sheets(styles):
        _take(text, rules)
    return rules


def _take(css: str, rules: list[RuleT]) -> None:
    if "/*" in css:
        css = COMMENT.sub(" ", css)
    counted = depth = looked = 0
    for found in _HIDING_SIGNS.finditer(css):  # then hiding() reads the whole rule
        sign = found.start()
        start = css.rfind("{", looked, sign)
        looked = sign
        if start < 0:
            continue  # the rule of the previous match
        end = css.find("}", start)
        if end < 0 or len(rules) >= MAX_RULES:
            return
        depth += css.count("{", counted, start) - css.count("}", counted, start)
        counted = start
        if depth:
            continue  # a rule for some screens only
        earliest = max(0, start - MAX_SELECTOR)
        begin = max(css.rfind(";", earliest, start), css.rfind("}", earliest, start))
        selectors = [
            match
            for selector in css[begin + 1 : start].split(",")
            if (match := _SIMPLE.fullmatch(selector.strip())) and match[2]
        ]
        if selectors and (kind := hiding(css[start + 1 : end].strip())):
            for match in selectors:
                names = SELECTOR_NAME.findall(match[2])
                parts = frozenset(name.removeprefix(".") for name in names)
                rules.append(((match[1] or "").lower(), parts, kind))


class HidingRules:
    """The rules by which a page's ``<style>`` elements and attributes hide elements."""

    def __init__(self, styles: list[Any]):
        self._styles = styles
        self._left = MAX_SIZELESS
        self._rules = sheet_rules(styles)
        self._parts = frozenset(p for _, parts, _ in self._rules for p in parts)
        self._ids = frozenset(part[1:] for part in self._parts if part[0] == "#")
        self._watched = self._parts | _SCREEN_READER_ONLY

    def find_hidden(self, body: Any) -> dict[Any, Hiding]:
        """Return the elements that are hidden themselves, not by an ancestor.

        Also change each ``span`` that is drawn as a block to a ``div``.
        """
        found: dict[Any, Hiding] = {}
        for element, names, watched, own, style, attribute in suspects(
            body, self._is_watched, self._ids, self._watched, _STYLE_PARTS
        ):
            tag = element.tag
            kind = self._hiding_of_names(tag, names, "") if watched else Hiding.NOT
            if own is not None:
                kind = self._hiding_of_names(tag, names, f"#{own}")
            if (
                (style or kind or attribute is not None)
                and tag not in _NEVER
                and (kind := _element_hiding(element, kind, style or "", attribute))
                and (kind := self._hiding_of_sizeless(element, kind))
            ):
                found[element] = kind
            if style and tag == "span" and "display:block" in style.replace(" ", ""):
                element.tag = "div"
        return found

    def _hiding_of_sizeless(self, element: Any, kind: Hiding) -> Hiding:
        """Return how an element is hidden in which other elements may have a size.

        Pages remove the gaps between elements this way.
        """
        if kind is not Hiding.SIZELESS:
            return kind
        self._left -= 1
        if self._left < 0:
            return Hiding.UNSEEN
        inside = list(islice(element.iterdescendants(etree.Element), MAX_SIZELESS))
        own = (element.text, *(child.tail for child in element))
        if not inside or any(text and not text.isspace() for text in own):
            return Hiding.UNSEEN
        has_size = any(
            SIZED.search((e.get("style") or "")[:MAX_STYLE])
            or (self._has_sizes and e.get("class"))
            for e in inside
        )
        return Hiding.NOT if has_size else Hiding.CLOSED

    @cached_property
    def _has_sizes(self) -> bool:
        return any(SIZED.search(css) for css in sheets(self._styles))

    @cached_property
    def _switches(self) -> list[Switch]:
        return switches(self._styles)

    def _is_watched(self, names: str) -> bool:
        return not self._watched.isdisjoint(names.split())

    def _hiding_of_names(self, tag: str, names: str | None, name: str) -> Hiding:
        """Return how class names and ``name``, an ``#id`` or empty, hide an element."""
        parts = set((names or "").split())
        if not _SCREEN_READER_ONLY.isdisjoint(parts):
            return Hiding.NOT if tag in _HEADINGS else Hiding.UNSEEN
        parts.add(name)
        if self._parts.isdisjoint(parts) or not _SHOWN.isdisjoint(parts):
            return Hiding.NOT
        for rule_tag, needed, kind in self._rules:
            if needed <= parts and rule_tag in {"", tag}:
                is_closed = kind is Hiding.CLOSED
                return Hiding.NOT if is_closed and self._shows(tag, parts) else kind
        return Hiding.NOT

    def _shows(self, tag: str, parts: set[str]) -> bool:
        """Return True if another rule wins over each rule that hides an element."""
        self._left -= 1
        if self._left < 0:
            return False
        won = {
            rule.name.lower(): rule.value.lower()
            for rule in self._switches
            if rule.parts <= parts and rule.tag in {"", tag}
        }
        return bool(won) and _OFF_VALUES.isdisjoint(won.items())


def _element_hiding(
    element: Any, kind: Hiding, style: str, attribute: str | None
) -> Hiding:
    """Return how an element is hidden whose class names lead to ``kind``."""
    if found := hiding(style) if style else Hiding.NOT:
        return found
    if attribute is not None and attribute != "until-found":
        # A script that shows the element may leave the attribute, as jQuery's show().
        display = {n.lower(): v.lower() for n, v in SWITCHES.findall(style)}
        is_shown = display.get("display", "none") != "none"
        return Hiding.NOT if is_shown else Hiding.CLOSED
    if "color" in style and _same_colour(element, style):
        return Hiding.UNSEEN
    return Hiding.NOT if kind and style and _is_shown(style) else kind


def may_be_shown(element: Any, kind: Hiding) -> bool:
    """Return True if a reader can open the element, or a script moves it into view.

    An ``h1`` that is not closed counts too: a script moves it into view, or it stands
    for a title in a picture.
    """
    if kind is Hiding.CLOSED:
        return _is_opened(element)
    if element.tag == "h1" or (kind is Hiding.MAYBE and _holds_title(element)):
        return True
    return kind is Hiding.MAYBE and any(name in element.attrib for name in _MOVED)


def _is_opened(element: Any) -> bool:
    """Return True if a click opens the element: a tab, an accordion, ``details``."""
    attributes = element.attrib
    if attributes.get("role") == "tabpanel" or element.tag == "details":
        return True
    if (names := _names_of(element)) != " " and _OPENABLE.is_in(names):
        return True
    above = element.getparent()
    if above is not None and above.tag == "details":
        return True
    return (
        "aria-labelledby" in attributes
        or attributes.get("role") == "region"
        or _has_switch(element)
    ) and not is_overlay(element)


def _has_switch(element: Any) -> bool:
    """Return True if a control with ``aria-expanded`` stands just before the element."""
    before = element.getprevious()
    if before is None and (above := element.getparent()) is not None:
        before = above.getprevious()
    if before is None:
        return False
    return any("aria-expanded" in e.attrib for e in islice(before.iter(), MAX_SWITCH))


def _is_shown(style: str) -> bool:
    style = style.replace(" ", "").lower()
    return ("display:" in style and "display:none" not in style) or (
        "visibility:visible" in style
    )


def _same_colour(element: Any, style: str) -> bool:
    """Return True if the text has the colour of the nearest declared background."""
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
