"""Selectors of callers: the key ``selectors`` of json and changeTracking, and lists of CSS.

The object is that of crawl4ai's ``JsonCssExtractionStrategy``; each selector may be CSS or
XPath, as users of parsel write it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import re2
from attrs import frozen
from cssselect import HTMLTranslator as CssTranslator
from cssselect import SelectorError, parse
from lxml import etree
from parsel.csstranslator import HTMLTranslator

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.parsing import (
    INVALID,
    Anything,
    Array,
    Key,
    Object,
    Position,
    Text,
    Then,
    ValueKind,
    integer,
    short,
    structure,
)
from scraper_service.options.urls import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_FIELDS = 100
MAX_LEVELS = 5  # of fields in fields
MAX_SELECTOR = 1000  # characters
MOST_SIBLINGS = 3  # steps to siblings in a selector
MAX_STEPS = 4  # of a pipeline
PATTERN_BYTES = 2**20  # of a compiled pattern
MAX_PATTERN = 1000  # characters

STEPS = ("text", "attribute", "html", "regex")
GROUPS = ("nested", "nested_list", "list")
TRANSFORMS = ("strip", "lowercase", "uppercase", "number", "absolute_url")
NO_CODE = "it would run code; use pattern and transform, or XPath for siblings"

_XPATH = re.compile(r"/|\./|\.\./|\(|xpath:")
_COSTLY = re.compile(
    r"'[^']*'|\"[^\"]*\"|[\[\]]|//|(?:following|preceding)-sibling|following|preceding"
)
# A string in quotes, a variable, or a name: its prefix, and whether it is a function.
_NAME = re.compile(
    r"""'[^']*'|"[^"]*"|\$[\w.:-]+|([^\W\d][\w.-]*)(:(?!:)[\w.*-]+)?(\s*\()?"""
)
_OPERATORS = frozenset({"and", "or", "div", "mod"})  # brackets may follow them
_NO_PAGE = etree.Element("html")
_TRANSLATOR = HTMLTranslator()


@frozen
class Selector:
    """A selector of the caller, compiled."""

    #: As the caller wrote it.
    text: str
    xpath: etree.XPath


@frozen
class FieldPlan:
    """One field to read from an element."""

    name: str
    #: The selector of the matches; None for the element itself.
    selector: Selector | None
    #: Some of :data:`STEPS`, in order, or one of :data:`GROUPS`.
    steps: tuple[str, ...]
    attribute: str | None
    pattern: Any
    #: The group of ``pattern``.
    group: int
    #: Some of :data:`TRANSFORMS`.
    transforms: tuple[str, ...]
    #: What stands for no match.
    default: Any
    #: The fields of each match, in a group.
    fields: tuple[FieldPlan, ...]


@frozen
class SelectorPlan:
    """The whole object, compiled."""

    fields: tuple[FieldPlan, ...]
    #: Selector of the elements with a result each; None for one result of the page.
    base: Selector | None = None
    #: Fields of the base element itself.
    base_fields: tuple[FieldPlan, ...] = ()


@frozen
class AsGiven:
    """A value that ``kind`` can read; it stays as it was given."""

    kind: ValueKind

    @property
    def expected(self) -> str:
        return self.kind.expected

    def read(self, value: Any, at: Position) -> Any:
        return INVALID if self.kind.read(value, at) is INVALID else value


@frozen
class Never:
    """A key that is refused whatever its value."""

    expected: ClassVar[str] = "nothing"

    reason: str

    def read(self, value: Any, at: Position) -> Any:
        return at.report("custom", f"{at.name} is not available: {self.reason}")


def plan_of(selectors: Mapping[str, Any]) -> SelectorPlan:
    """Return the plan of a valid object.

    :raises InvalidOptions: with every issue.
    """
    plan: SelectorPlan = structure(PLAN, selectors, "selectors")
    return plan


@lru_cache(maxsize=256)
def compile_selector(selector: str, *, is_base: bool = False) -> etree.XPath:
    """Return a selector as XPath.

    :raises ValueError: for a selector that is neither CSS nor XPath 1.0, and for names
        in it that are known to no page.
    """
    text = selector.strip()
    if _XPATH.match(text):
        xpath = text.removeprefix("xpath:").strip()
        if xpath.startswith("//") and not is_base:
            xpath = f".{xpath}"
    else:
        try:
            xpath = _TRANSLATOR.css_to_xpath(text.removeprefix("css:").strip())
        except Exception as error:
            why = str(error)[:200] or type(error).__name__
            raise ValueError(f"not a CSS selector: {short(selector)}: {why}") from None
    if _is_costly(xpath):
        raise ValueError(
            f"takes too long on large pages: {short(selector)}; at most {MOST_SIBLINGS}"
            " steps to siblings, and one axis //, following or preceding in brackets"
        )
    try:
        found = etree.XPath(xpath, smart_strings=False)
    except (etree.XPathError, ValueError) as error:
        raise ValueError(f"not XPath 1.0: {short(selector)}: {error}") from None
    if (unknown := _unknown_name(xpath)) is not None:
        raise ValueError(f"{unknown} in {short(selector)}")
    return found


def _unknown_name(xpath: str) -> str | None:
    """Return what is unknown in valid XPath; libxml2 finds it only where it evaluates it."""
    for match in _NAME.finditer(xpath):
        name, local, bracket = match.groups()
        if match[0].startswith("$"):
            return f"unknown variable {match[0]!r}: there are none"
        if local and name != "xml":
            return f"unknown prefix {name!r}: only 'xml' is known"
        if bracket and not local and name not in _OPERATORS and not _is_function(name):
            return f"unknown function {name!r}: only those of XPath 1.0 are known"
    return None


def _is_function(name: str) -> bool:
    try:
        etree.XPath(f"{name}()")(_NO_PAGE)
    except etree.XPathEvalError as error:
        return str(error) != "Unregistered function"
    except (etree.XPathError, ValueError):  # it lacks arguments
        return True
    return True


def _is_costly(xpath: str) -> bool:
    """Return True for XPath whose time grows faster than the square of a page's size.

    libxml2 cannot be interrupted in an expression.
    """
    depth = inside = siblings = 0
    for found in _COSTLY.finditer(xpath):
        match found[0]:
            case "[":
                depth += 1
            case "]":
                depth -= 1
            case "following-sibling" | "preceding-sibling":
                siblings += not depth
                inside += depth > 1
            case text if depth and text[0] not in "'\"":
                inside += 1
    return inside > 1 or siblings > MOST_SIBLINGS


def _selector(text: str) -> Selector:
    return Selector(text, compile_selector(text))


def _base(text: str) -> Selector:
    return Selector(text, compile_selector(text, is_base=True))


def _pattern(text: str) -> Any:
    options = re2.Options()
    options.max_mem = PATTERN_BYTES
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ValueError(
            f"not a regular expression (RE2): {short(text)}: {reason_of(error)}"
        ) from None


def _words(allowed: tuple[str, ...], most: int) -> Callable[[Any], tuple[str, ...]]:
    """Return a function that reads a word or an array of words."""

    def read(value: Any) -> tuple[str, ...]:
        given = value if isinstance(value, list) else [value]
        if given and len(given) <= most and all(each in allowed for each in given):
            return tuple(given)
        if value == "computed":
            raise ValueError(f"the type computed is not available: {NO_CODE}")
        names = ", ".join(allowed)
        raise ValueError(
            f"must be one of {names}, or an array of 1 to {most} of them, got {short(value)}"
        )

    return read


def _field(values: dict[str, Any], at: Position) -> Any:
    """Return the plan of a field, or report what its keys lack."""
    steps = values.get("steps") or ("text",)
    grouped = [step for step in steps if step in GROUPS]
    if grouped and len(steps) > 1:
        text = f"{grouped[0]} must stand alone: only text, attribute, html and regex make a pipeline"
        return (at / "type").report("custom", text)
    pattern = values.get("pattern")
    group = values.get("group")
    for step, key in (("attribute", "attribute"), ("regex", "pattern")):
        if step in steps and values.get(key) is None:
            return (at / key).missing("string")
    if values.get("attribute") is not None and not ("attribute" in steps or grouped):
        return (at / "attribute").report("custom", "attribute needs the type attribute")
    if pattern is not None and "regex" not in steps and not grouped:
        return (at / "pattern").report("custom", "pattern needs the type regex")
    if group is not None and (pattern is None or group > pattern.groups):
        count = 0 if pattern is None else pattern.groups
        text = f"group must be 0 to {count}, the groups of pattern, got {group}"
        return (at / "group").report("custom", text)
    if steps[0] in {"nested", "nested_list"} and not values.get("fields"):
        return (at / "fields").missing("array")
    if values.get("fields") and not grouped:
        text = "fields needs the type nested, nested_list or list"
        return (at / "fields").report("custom", text)
    if group is None:
        group = 1 if pattern is not None and pattern.groups else 0
    return FieldPlan(
        name=values["name"],
        selector=values.get("selector"),
        steps=steps,
        attribute=values.get("attribute"),
        pattern=pattern,
        group=group,
        transforms=values.get("transforms") or (),
        default=values.get("default"),
        fields=values.get("fields") or (),
    )


def _unique(fields: tuple[FieldPlan, ...]) -> tuple[FieldPlan, ...]:
    names = [each.name for each in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"each name must stand once, got {short(twice)} twice")
    return fields


_SELECTOR = Text(MAX_SELECTOR, minimum=1)


def _fields(level: int) -> ValueKind:
    """Return the kind of an array of fields that stands at ``level``, from 1."""
    if level > MAX_LEVELS:
        return Never(f"fields may stand in fields {MAX_LEVELS} levels deep")
    return Then(
        Array(
            Object(
                {
                    "name": Key(
                        Text(200, minimum=1),
                        "name",
                        required=True,
                        help="The key of the value.",
                    ),
                    "selector": Key(
                        Then(_SELECTOR, _selector),
                        "selector",
                        help="CSS or XPath 1.0; without it the element itself.",
                    ),
                    "type": Key(
                        Then(
                            Anything(),
                            _words((*STEPS, *GROUPS), MAX_STEPS),
                            _one_or_more((*STEPS, *GROUPS)),
                        ),
                        "steps",
                        help="What to read; an array of single steps is a pipeline.",
                    ),
                    "attribute": Key(
                        Text(256, minimum=1), "attribute", help="Its name."
                    ),
                    "pattern": Key(
                        Then(Text(MAX_PATTERN, minimum=1), _pattern),
                        "pattern",
                        help="A regular expression (RE2).",
                    ),
                    "group": Key(
                        integer(0, 100),
                        "group",
                        help="The group of pattern; 1, or 0 without groups.",
                    ),
                    "transform": Key(
                        Then(
                            Anything(),
                            _words(TRANSFORMS, len(TRANSFORMS)),
                            _one_or_more(TRANSFORMS),
                        ),
                        "transforms",
                        help="Changes of the value, in order.",
                    ),
                    "default": Key(
                        Anything(), "default", help="The value without a match."
                    ),
                    "fields": Key(
                        _fields(level + 1), "fields", help="The fields of each match."
                    ),
                    **{
                        name: Key(Never(NO_CODE), help="Refused: no code runs.")
                        for name in ("function", "expression", "source")
                    },
                },
                _field,
            ),
            MAX_FIELDS,
        ),
        _unique,
    )


def _one_or_more(words: tuple[str, ...]) -> dict[str, Any]:
    one = {"type": "string", "enum": list(words)}
    return {"oneOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def _plan(values: dict[str, Any], at: Position) -> Any:
    if not values["fields"]:
        text = "fields must have at least 1 item"
        return (at / "fields").report("too_small", text, minimum=1)
    if values.get("base_fields") and values.get("base") is None:
        return (at / "baseSelector").missing("string")
    return SelectorPlan(**values)


PLAN = Object(
    {
        "fields": Key(
            _fields(1), "fields", required=True, help="What to read of each result."
        ),
        "baseSelector": Key(
            Then(_SELECTOR, _base),
            "base",
            help="The elements with a result each; without it one result of the page.",
        ),
        "baseFields": Key(
            _fields(1), "base_fields", help="Fields of the base element itself."
        ),
        "name": Key(Anything(), help="No effect."),
    },
    _plan,
)
SELECTORS = AsGiven(PLAN)


# -- CSS selectors ------------------------------------------------------------------------

MAX_SELECTORS = 100
MAX_CSS = 1024  # characters
MAX_SELECTOR_TEXT = (
    16 * 2**10
)  # characters of all together: a compile takes 4 ms per KiB
MAX_SELECTOR_DEPTH = 3  # of parentheses, as in :not(:has(:is(p)))

_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_QUOTED = re.compile(r"""\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)


def caller_selectors(selectors: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``selectors`` if all are valid CSS selectors of bounded size.

    :raises InvalidOptions: with the path ``(index,)`` for each invalid selector.
    """
    size = sum(map(len, selectors))
    if len(selectors) > MAX_SELECTORS or size > MAX_SELECTOR_TEXT:
        text = (
            f"at most {MAX_SELECTORS} selectors of {MAX_SELECTOR_TEXT} characters in all "
            f"are allowed, got {len(selectors)} of {size}"
        )
        raise InvalidOptions([Issue("too_big", (), text, {"maximum": MAX_SELECTORS})])
    issues = []
    for index, selector in enumerate(selectors):
        try:
            caller_selector(selector)
        except ValueError as error:
            issues.append(Issue("custom", (index,), str(error)))
    if issues:
        raise InvalidOptions(issues)
    return selectors


def caller_selector(selector: str, *, is_of_browser: bool = False) -> str:
    """Return ``selector`` if it is a CSS selector of bounded size.

    A browser may support more than what becomes XPath, which is not checked then.

    :raises ValueError: with a message for the caller.
    """
    shown = repr(selector[:60])
    if len(selector) > MAX_CSS:
        raise ValueError(
            f"not a CSS selector: {shown}... has more than {MAX_CSS} characters"
        )
    if _depth(selector) > MAX_SELECTOR_DEPTH:
        raise ValueError(
            f"not a CSS selector: {shown} has more than {MAX_SELECTOR_DEPTH} "
            "nested parentheses"
        )
    try:
        groups = parse(selector)
        xpath = CssTranslator().selector_to_xpath
        paths = [] if is_of_browser else [xpath(group) for group in groups]
    except (SelectorError, RecursionError, ValueError) as error:
        raise ValueError(f"not a CSS selector: {shown}: {str(error)[:100]}") from None
    if any(group.pseudo_element for group in groups):
        raise ValueError(f"not a CSS selector: {shown} has a pseudo-element")
    # Escapes such as \1 produce them, too. An XPath may have only characters of XML.
    if any(_NOT_XML.search(path) for path in paths):
        raise ValueError(f"not a CSS selector: {shown} has control characters")
    return selector


def _depth(selector: str) -> int:
    deepest = depth = 0
    for character in _QUOTED.sub("", selector):
        depth += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, depth)
    return deepest
