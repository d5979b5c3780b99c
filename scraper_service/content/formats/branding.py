"""Makes the format ``branding``: name, logo, colours, fonts and shapes of a brand.

:class:`Declared` makes it, ``product`` and ``menu`` from the same evidence. The looks are
read from ``<style>`` elements and ``style`` attributes. Only rules for all screens with
simple selectors count. Colours become ``#RRGGBB``. tinycss2 parses; it is slower than the
search of ``hidden_text``, which runs on every page.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

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

from scraper_service.content.formats.products_and_menus import (
    menu,
    product,
    with_values,
)
from scraper_service.content.metadata.evidence import Evidence
from scraper_service.content.page_urls import absolute, best_candidate
from scraper_service.content.structured_data.nodes import Graph, plain, types_of
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_SHEETS = 50
MAX_CSS = 500_000  # characters of a page; 1 s to parse
MAX_RULES = 20_000
MAX_INLINE = 2000  # elements whose ``style`` attribute is parsed
MAX_BLOCK = 20_000  # characters between braces
MAX_SELECTOR = 2000
MAX_STEPS = 8  # variables that refer to variables

_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*(?:\([^()]*\))?[^()]*))?\)")
_ROOTS = frozenset({":root", "html", "body", ":host", ":root,:host", "*"})
_FAINT = 0.1  # colours with less opacity are ignored
_GREY = 24  # largest difference between the channels of a grey
_SPACES = frozenset({"srgb", "hsl", "hwb"})
NO_PRODUCT = "No product was found on the page."
MAX_FONTS = 10
MAX_UNREAD = 3  # style sheets that a warning names
UNREAD_SHEETS = (
    "Style sheets that are files of their own were not read ({}): colours, fonts and"
    " shapes are those of the page itself."
)
_MAKERS = frozenset({"Organization", "Corporation", "LocalBusiness", "Brand", "Store"})
_GENERIC = frozenset(
    "serif sans-serif monospace cursive fantasy system-ui ui-sans-serif ui-serif math "
    "ui-monospace ui-rounded emoji inherit initial unset -apple-system blinkmacsystemfont".split()
)
_LOGO = re.compile(r"(?:^|[\s_/.-])logo|brand[-_]?(?:logo|mark|image)", re.IGNORECASE)
_BUTTON = re.compile(r"(?:^|[\s.])(?:button|btn|cta)\b(?!.*:)", re.IGNORECASE)
_PRIMARY = re.compile(r"primary|cta", re.IGNORECASE)
_SECOND = re.compile(r"secondary|outline|ghost", re.IGNORECASE)
# Names of CSS variables by the role of their colour.
_VARIABLES = {
    "primary": r"^--(?:[\w]+-)?(?:colou?r-)?(?:primary|brand|main)(?:-colou?r|-500|-600)?$",
    "secondary": r"^--(?:[\w]+-)?(?:colou?r-)?secondary(?:-colou?r|-500)?$",
    "accent": r"^--(?:[\w]+-)?(?:colou?r-)?(?:accent|highlight)(?:-colou?r|-500)?$",
    "background": r"^--(?:[\w]+-)?(?:colou?r-)?(?:bg|background|surface|body-bg)(?:-colou?r)?$",
    "textPrimary": r"^--(?:[\w]+-)?(?:colou?r-)?(?:text|fg|foreground|body-color)(?:-colou?r|-primary)?$",
    "link": r"^--(?:[\w]+-)?(?:colou?r-)?link(?:-colou?r)?$",
}
_TAGS = ("h1", "h2", "h3", "body")
_INLINE_TAGS = ("header", "nav", "a", "button", "h1", "div")
_GROUNDS = ("background-color", "background")


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
            declared = _read_declarations(parse_blocks_contents(rule.content or []))
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
    return _read_declarations(
        parse_declaration_list(css[:MAX_BLOCK], skip_comments=True)
    )


def _read_declarations(nodes: list[Any]) -> dict[str, str]:
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


def colour(css: str | None) -> str | None:
    """Return the first colour in a declaration's value as ``#RRGGBB``, or None.

    None too if that colour is transparent, or not of the colour spaces of a screen.
    """
    open_lists = [iter(parse_component_value_list((css or "")[:MAX_BLOCK]))]
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


def branding(
    graph: Graph, evidence: Evidence, url: str, looks: str = ""
) -> tuple[dict[str, Any], str | None]:
    """Return the brand of a page, and a warning if style sheets were not read.

    ``looks`` is CSS that a browser computed with all style sheets. Keys without a value
    are left out. Call this before the page is cleaned: cleaning removes the styles.
    """
    styles = styles_of(evidence.root, looks)
    colours = _colours(styles, evidence)
    found = with_values(
        colorScheme=_scheme(evidence, colours),
        brandName=_name(graph, evidence),
        logo=_logo(graph, evidence),
        colors=colours,
        fonts=[{"family": each} for each in _fonts(styles, evidence)],
        typography=_typography(styles),
        spacing=_spacing(styles),
        components=_components(styles),
        images=_images(graph, evidence, url),
    )
    return found, None if looks else _unread_sheets(evidence)


def _unread_sheets(evidence: Evidence) -> str | None:
    sheets = [
        link.get("href", "")
        for link in evidence.links
        if "stylesheet" in (link.get("rel") or "").lower().split()
        and "font" not in url_parts(link.get("href", "")).netloc
    ]
    if not sheets:
        return None
    names = [
        url_parts(each).path.rsplit("/", 1)[-1][:40] for each in sheets[:MAX_UNREAD]
    ]
    more = f" and {len(sheets) - MAX_UNREAD} more" if len(sheets) > MAX_UNREAD else ""
    return UNREAD_SHEETS.format(", ".join(names) + more)


def _colours(styles: Styles, evidence: Evidence) -> dict[str, str]:
    body = _attribute_of(evidence.document.body)
    found: dict[str, str | None] = {
        name: _variable_colour(styles, name) for name in _VARIABLES
    }
    ground = body.get("background-color") or body.get("background")
    ground = ground or _ground(styles, "body", "html", ":root")
    found["background"] = colour(ground) or found["background"]
    ink = body.get("color") or styles.value("color", "body", "html", ":root")
    found["textPrimary"] = colour(ink) or found["textPrimary"]
    found["link"] = colour(styles.value("color", "a", "a:link")) or found["link"]
    theme = evidence.first("theme-color", "msapplication-tilecolor")
    buttons = (v for name in _GROUNDS for v in styles.like(name, _BUTTON))
    for text in (theme, *buttons, found["link"], *_inline_grounds(evidence)):
        shade = colour(text)
        if shade and not is_grey(shade):
            if found["primary"] is None:
                found["primary"] = shade
            elif found["accent"] is None and shade != found["primary"]:
                found["accent"] = shade
    return {name: value for name, value in found.items() if value}


def _attribute_of(element: Any) -> dict[str, str]:
    found = declarations(element.get("style") or "")
    if ground := element.get("bgcolor"):
        found.setdefault("background-color", ground)
    return found


def _ground(styles: Styles, *selectors: str) -> str | None:
    values = (styles.value(name, each) for each in selectors for name in _GROUNDS)
    return next(filter(None, values), None)


def _variable_colour(styles: Styles, role: str) -> str | None:
    pattern = re.compile(_VARIABLES[role], re.IGNORECASE)
    for name, value in styles.variables.items():
        if pattern.match(name):
            text = styles.resolve(value)
            # Channels, for rgb().
            if re.fullmatch(r"\d{1,3},? \d{1,3},? \d{1,3}", text):
                text = f"rgb({text})"
            if found := colour(text):
                return found
    return None


def _inline_grounds(evidence: Evidence) -> list[str]:
    elements = evidence.document.body.iter(*_INLINE_TAGS)
    written = islice((s for e in elements if (s := e.get("style"))), MAX_INLINE)
    grounds = Counter(
        text
        for declared in map(declarations, written)
        if (text := declared.get("background-color") or declared.get("background"))
    )
    return [text for text, _ in grounds.most_common(10)]


def _scheme(evidence: Evidence, colours: dict[str, str]) -> str | None:
    if ground := colours.get("background"):
        return "dark" if is_dark(ground) else "light"
    if ink := colours.get("textPrimary"):
        return "light" if is_dark(ink) else "dark"
    stated = evidence.first("color-scheme").lower().split()
    return stated[0] if stated and stated[0] in {"light", "dark"} else None


def _name(graph: Graph, evidence: Evidence) -> str | None:
    if name := evidence.first("og:site_name", "application-name"):
        return name
    nodes = (n.data for n in graph.nodes if _MAKERS & set(types_of(n.data)))
    return next((name for node in nodes if (name := plain(node.get("name")))), None)


def _logo(graph: Graph, evidence: Evidence) -> str | None:
    base = evidence.document.base
    for node in graph.nodes:
        for value in graph.values(node.data, "logo"):
            is_node = isinstance(value, dict)
            text = value.get("url") or value.get("contentUrl") if is_node else value
            if url := absolute(base, plain(text)):
                return url
    for image in evidence.document.body.iter("img"):
        names = (image.get(n, "") for n in ("class", "id", "alt", "src"))
        parent = image.getparent()
        above = f"{parent.get('class', '')} {parent.get('id', '')}"
        if any(map(_LOGO.search, (*names, above))):
            source = image.get("src") or best_candidate(image.get("srcset", "")) or ""
            if url := absolute(base, source):
                return url
    return None


def _families(text: str | None) -> list[str]:
    found = []
    for part in (text or "").split(","):
        name = part.strip(" \"'")
        if name.lower() not in _GENERIC and 0 < len(name) <= 60 and "(" not in name:
            found.append(name)
    return found


def _fonts(styles: Styles, evidence: Evidence) -> list[str]:
    named = [
        _families(styles.value("font-family", tag)) for tag in ("body", "html", *_TAGS)
    ]
    loaded = [_families(face) for face in styles.faces]
    variables = [
        _families(styles.resolve(value))
        for name, value in styles.variables.items()
        if re.search(r"font(?:-family|-sans|-serif|-body|-heading)?$", name)
    ]
    wanted = [families[0] for families in (*named, *variables, *loaded) if families]
    return list(dict.fromkeys([*wanted, *_service_fonts(evidence.links)]))[:MAX_FONTS]


def _service_fonts(links: Iterable[Any]) -> Iterator[str]:
    """Yield the families in URLs of font services such as Google Fonts."""
    for link in links:
        parts = url_parts(link.get("href") or "")
        if "font" in parts.netloc:
            for value in parse_qs(parts.query).get("family", ()):
                for family in value.split("|"):
                    yield family.split(":")[0]


def _typography(styles: Styles) -> dict[str, Any]:
    body = _families(styles.value("font-family", "body", "html", ":root", "*"))
    heading = _families(styles.value("font-family", "h1", "h2"))
    first = {"primary": next(iter(body), ""), "heading": next(iter(heading), "")}
    sizes = {tag: styles.value("font-size", tag) for tag in ("h1", "h2", "body")}
    weights = {tag: styles.value("font-weight", tag) for tag in ("h1", "body")}
    return with_values(
        fontFamilies=with_values(**first),
        fontSizes=with_values(**sizes),
        fontWeights=with_values(**weights),
    )


def _spacing(styles: Styles) -> dict[str, str]:
    variables = styles.variables.items()
    named = (
        styles.resolve(value) for name, value in variables if name[-6:] == "radius"
    )
    return with_values(
        borderRadius=next(named, "") or next(styles.like("border-radius", _BUTTON), "")
    )


def _components(styles: Styles) -> dict[str, dict[str, str]]:
    return with_values(  # plain buttons count as primary
        buttonPrimary=_button(styles, _PRIMARY, _BUTTON),
        buttonSecondary=_button(styles, _SECOND),
    )


def _button(styles: Styles, *kinds: re.Pattern[str]) -> dict[str, str]:
    """Return the look of the buttons of the first kind that declares it."""
    facts: dict[str, str] = {}
    for name, key in (
        ("background", "background"),
        ("background-color", "background"),
        ("color", "textColor"),
        ("border-radius", "borderRadius"),
    ):
        for pattern in kinds:
            values = [v for v in styles.like(name, pattern, _BUTTON) if v]
            shown = [v if key == "borderRadius" else colour(v) for v in values]
            if text := next(filter(None, shown), None):
                facts[key] = text
                break
    return facts if "background" in facts or "textColor" in facts else {}


def _images(graph: Graph, evidence: Evidence, url: str) -> dict[str, str]:
    base = evidence.document.base
    icons = [
        absolute(base, link.get("href") or "")
        for link in evidence.links
        if "icon" in (link.get("rel") or "").lower().split()
    ]
    found = with_values(
        logo=_logo(graph, evidence),
        favicon=next(filter(None, icons), None),
        ogImage=absolute(base, evidence.first("og:image", "twitter:image")),
    )
    return {name: value for name, value in found.items() if value != url}


@define(slots=False)
class Declared:
    """Makes formats from a page's structured data and styles, before its cleaning."""

    evidence: Evidence
    #: URL of the page as the caller sees it.
    url: str
    #: CSS that a browser computed; empty without a browser.
    looks: str = ""
    warnings: list[str] = field(factory=list)

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.evidence)

    def make(self, name: str) -> dict[str, Any] | None:
        """Return the format ``name``; None if the page has no data for it."""
        if name == "product":
            found = product(self.graph, self.evidence, self.url)
            if found is None:
                self.warnings.append(NO_PRODUCT)
            return found
        if name == "menu":
            return menu(self.graph, self.evidence, self.url)
        brand, warning = branding(self.graph, self.evidence, self.url, self.looks)
        if warning:
            self.warnings.append(warning)
        return brand
