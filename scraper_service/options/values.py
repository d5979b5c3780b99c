"""How JSON requests spell the values that are objects or lists.

The catalogue of options refers to these kinds. A name that ends in ``_V1`` or ``_V2``
is the spelling of one version of the API.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import frozen

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import actions, map_search, urls
from scraper_service.options.formats import (
    A_SELECTOR,
    FORMATS,
    NAMED,
    SCREENSHOT,
    STORED,
    FormatRow,
    caller_formats,
)
from scraper_service.options.jobs import (
    COMMON_EVENTS,
    EVENTS,
    Webhook,
    parse_since,
)
from scraper_service.options.json_schema import Schema
from scraper_service.options.limits import SitePolicy
from scraper_service.options.parsing import (
    INVALID,
    Array,
    BodyReader,
    Bool,
    Choice,
    Key,
    KeysT,
    Number,
    Object,
    Pairs,
    Position,
    Tagged,
    Text,
    Then,
    ValueKind,
    build,
    choice,
    integer,
    need,
    short,
)
from scraper_service.options.scrape import (
    DEFAULT_COUNTRY,
    ENTITIES_BY_RULES,
    MAX_ACTIONS,
    MAX_NAME,
    MAX_PDF_PAGES,
    MAX_WAIT_MS,
    OVERALL_TIMEOUT_MS,
    REDACTION_MODES,
    REDACTION_STYLES,
    ImageParser,
    Location,
    Parser,
    PdfParser,
    Profile,
    RedactPii,
    SiteRules,
    country_code,
    language_tag,
    profile_name,
)
from scraper_service.options.selectors import (
    MAX_CSS,
    MAX_SELECTORS,
    caller_selector,
    caller_selectors,
)
from scraper_service.options.urls import MAX_PATTERNS, caller_patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The help of a key that is accepted so that public clients work.
NO_EFFECT = "Accepted without effect."
NO_URLS = "No valid URLs provided: urls must have at least 1 item"
LIST_MODES = ("off", "manual-only")  # modes of threatProtection with lists alone
MAX_SITES = 1000  # entries of one list of threatProtection
MAX_EVENTS = 100  # entries of the events of a webhook
MAX_HOOK_METADATA = 64 * 1024  # characters of JSON, which go with every event
_PAPER_SIZES = "A0 A1 A2 A3 A4 A5 A6 Letter Legal Tabloid Ledger"


def cap_ms(timeout_ms: int) -> int:
    """Return a time-out, at most the longest one."""
    return min(timeout_ms, OVERALL_TIMEOUT_MS)


def some_urls(kind: ValueKind, error: str) -> Then:
    """Return the kind of a list of URLs that is not empty, else ``error`` is reported."""

    def check(given: tuple[str, ...]) -> tuple[str, ...]:
        if not given:
            raise InvalidOptions([Issue("too_small", (), error, {"minimum": 1})])
        return given

    return Then(kind, check, {"minItems": 1})


def some(kind: ValueKind, error: str) -> Then:
    """Return the kind of a list that is not empty, else ``error`` is raised."""

    def check(given: tuple[Any, ...]) -> tuple[Any, ...]:
        if not given:
            raise ValueError(error)
        return given

    return Then(kind, check, {"minItems": 1})


URL = Then(Text(), urls.caller_url, {"minLength": 1, "maxLength": urls.MAX_URL})
HEADERS = Then(Pairs(Text()), urls.caller_headers, {"maxProperties": urls.MAX_HEADERS})


def _since(text: str) -> str:
    parse_since(text)
    return text


SINCE = Then(Text(64, minimum=1), _since)
SELECTORS = Then(Array(Text()), caller_selectors, {"maxItems": MAX_SELECTORS})
PATTERNS = Then(Array(Text()), caller_patterns, {"maxItems": MAX_PATTERNS})
PROXY = Choice(
    {"basic": "basic", "stealth": "stealth", "auto": "auto", "enhanced": "stealth"}
)
CAPPED_TIMEOUT = Then(integer(1), cap_ms)

LOCATION = Object(
    {
        "country": Key(
            Then(Text(), country_code),
            "country",
            help="The country's code of two letters (ISO 3166-1), or US-generic.",
        ),
        "languages": Key(
            Array(Then(Text(), language_tag), 20),
            "languages",
            help="Language tags for the header Accept-Language, such as de-AT.",
        ),
    },
    build(Location, country=DEFAULT_COUNTRY),
)
PROFILE = Object(
    {
        "name": need(
            Then(Text(), profile_name, {"minLength": 1, "maxLength": MAX_NAME}),
            "name",
            "The name of the profile.",
        ),
        "saveChanges": Key(
            Bool(), "save_changes", help="Store cookies and storage after the page."
        ),
    },
    build(Profile),
)


class _Mode(Choice):
    """A mode of ``threatProtection``. Messages list only the modes that are available."""

    def read(self, value: Any, at: Position) -> Any:
        if isinstance(value, str) and value not in self.values:
            return at.outside(dict.fromkeys(LIST_MODES), value)
        return super().read(value, at)


def _site_rules(values: dict[str, Any], at: Position) -> Any:
    if (mode := values.pop("mode", "off")) not in LIST_MODES:
        text = (
            f"the mode {mode!r} needs a scanning provider, there is none here;"
            f" {' and '.join(map(repr, LIST_MODES))} need none"
        )
        return (at / "mode").report("custom", text)
    return SiteRules(**values) if any(values.values()) else None


_SITES = Array(Then(Text(), urls.host_pattern), MAX_SITES)
_TLDS = Array(Then(Text(), partial(urls.caller_domain, example="zip")), MAX_SITES)
THREAT_PROTECTION = Object(
    {
        "mode": Key(
            _Mode({name: name for name in (*LIST_MODES, "normal", "zscaler")}),
            "mode",
            help="Must be off or manual-only: others need a scanning provider.",
        ),
        "blacklist": Key(
            _SITES,
            "blacklist",
            help="Refuse these hosts; *.host stands for subdomains.",
        ),
        "whitelist": Key(
            _SITES, "whitelist", help="Allow these hosts, even if others refuse them."
        ),
        "blockedTlds": Key(
            _TLDS, "blocked_tlds", help="Refuse these top-level domains."
        ),
        "riskScoreThreshold": Key(integer(0, 100), help=NO_EFFECT),
        "failurePolicy": Key(choice("open", "closed"), help=NO_EFFECT),
    },
    _site_rules,
)


def _site_policy(values: dict[str, Any], at: Position) -> Any:
    allows_overrides = values.pop("allows_overrides", False)
    mode = values.get("mode", "off")
    rules = THREAT_PROTECTION.make(values, at)  # reports a mode that scans
    if rules is not None and not isinstance(rules, SiteRules):
        return rules
    return SitePolicy(
        mode=mode, rules=rules or SiteRules(), allows_overrides=allows_overrides
    )


#: The body of ``PUT /v2/team/threat-protection``.
TEAM_PROTECTION = Object(
    {
        **THREAT_PROTECTION.fields,
        "allowRequestOverrides": Key(
            Bool(),
            "allows_overrides",
            help="Let requests replace the lists by their own.",
        ),
    },
    _site_policy,
)
team_protection = BodyReader[SitePolicy](__name__, "team_protection", TEAM_PROTECTION)

# Personal data.

ALL_BY_RULES = (
    "redactPII: PERSON and LOCATION cannot be found by rules, and this service has rules"
    " only: ask for {'mode': 'fast'}, or for entities among "
    + ", ".join(ENTITIES_BY_RULES)
)


def _redaction(values: dict[str, Any], at: Position) -> Any:
    """Return the redaction, or report what rules cannot do."""
    found = RedactPii(**values)
    if found.entities is None and found.mode != "fast":
        return at.report("custom", ALL_BY_RULES)
    return found


@frozen
class FlagOr:
    """An object; true stands for the empty object, which has to be refused, false for None."""

    expected: ClassVar[str] = "boolean or object"

    kind: Object

    def read(self, value: Any, at: Position) -> Any:
        if value is False:
            return None
        return self.kind.read({} if value is True else value, at)


REDACT_PII = FlagOr(
    Object(
        {
            "mode": Key(
                choice(*REDACTION_MODES),
                "mode",
                help="fast: by rules alone, which find no names and locations.",
            ),
            "entities": Key(
                some(
                    Array(choice(*ENTITIES_BY_RULES), 20),
                    "entities must have at least 1 item",
                ),
                "entities",
                help="What to replace; rules find no persons and locations.",
            ),
            "replaceStyle": Key(
                choice(*REDACTION_STYLES),
                "replace_style",
                help="What stands instead: <EMAIL>, *****, or nothing.",
            ),
        },
        _redaction,
        schema={
            "anyOf": [
                {"required": ["mode"], "properties": {"mode": {"const": "fast"}}},
                {"required": ["entities"]},
            ]
        },
    )
)

# Formats.


def _formats(rows: Iterable[FormatRow]) -> Then:
    kinds = {row.name: row.kind() for row in rows}
    return Then(Array(Tagged(kinds), 100), caller_formats)


FORMATS_V1 = Array(
    Choice({row.name: row.format() for row in FORMATS if "v1" in row.versions}), 100
)
FORMATS_V2 = _formats(NAMED.values())
STORED_FORMATS = _formats(row for row in NAMED.values() if STORED not in row.not_of)

# Parsers of files.


def _pdf_parser(wanted: bool) -> tuple[Parser, ...]:
    return (PdfParser(),) if wanted else ()


PARSERS_V1 = Then(Bool(), _pdf_parser)
PARSERS_V2 = Array(
    Tagged(
        {
            "pdf": Object(
                {
                    "mode": Key(
                        choice("auto", "fast", "ocr"),
                        "mode",
                        help="Read the text layer only (fast), or recognise text (ocr).",
                    ),
                    "maxPages": Key(
                        integer(1, MAX_PDF_PAGES), "max_pages", help="Read N pages."
                    ),
                    "pages": Key(Bool(), "pages", help="Return the text by page, too."),
                    "pageMarkdown": Key(
                        Bool(), "pages", alias=True, help="The old name of pages."
                    ),
                    "blocks": Key(
                        Bool(),
                        "blocks",
                        help="Return the text by block, with its position.",
                    ),
                    "pageMarkers": Key(
                        Bool(),
                        "page_markers",
                        help="Put a rule and a comment between pages.",
                    ),
                },
                build(PdfParser),
            ),
            "image": Object({}, build(ImageParser)),
        }
    ),
    10,
)

# Actions.

_SELECTOR = Then(Text(MAX_CSS, minimum=1), partial(caller_selector, is_of_browser=True))
_KEY = Then(Text(100, minimum=1), actions.check_keys)


def _wait(values: dict[str, Any], at: Position) -> Any:
    """Wait for a time, or until an element exists."""
    if len(values) != 1:
        text = f"{at.name} must have exactly one of milliseconds and selector"
        return at.report("custom", text)
    return actions.Wait(**values)


def _actions(screenshot: KeysT) -> Array:
    """Return the actions of a version whose screenshots take these keys."""
    kinds: Mapping[str, ValueKind] = {
        "wait": Object(
            {
                "milliseconds": Key(
                    integer(1), "milliseconds", help="How long, without a selector."
                ),
                "selector": Key(
                    _SELECTOR, "selector", help="Until an element matches it."
                ),
            },
            _wait,
            schema={
                "oneOf": [
                    {"required": ["milliseconds"]},
                    {"required": ["selector"]},
                ]
            },
        ),
        "click": Object(
            {
                "selector": need(_SELECTOR, "selector", A_SELECTOR),
                "all": Key(Bool(), "all", help="Click every element that matches."),
            },
            build(actions.Click),
        ),
        "screenshot": Object(screenshot, build(actions.ScreenshotAction)),
        "write": Object(
            {"text": need(Text(), "text", "The text to type.")}, build(actions.Write)
        ),
        "press": Object(
            {"key": need(_KEY, "key", "A key, such as Enter or Control+A.")},
            build(actions.Press),
        ),
        "scroll": Object(
            {
                "direction": Key(
                    choice("up", "down"), "direction", help="Where to scroll."
                ),
                "selector": Key(
                    _SELECTOR, "selector", help="The element; none is the window."
                ),
            },
            build(actions.Scroll),
        ),
        "scrollToEnd": Object(
            {
                "selector": Key(
                    _SELECTOR, "selector", help="The element; none is the window."
                ),
                "maxScrolls": Key(
                    integer(1, actions.MAX_SCROLLS),
                    "max_scrolls",
                    help="At most so many scrolls.",
                ),
                "timeout": Key(
                    integer(100, MAX_WAIT_MS),
                    "timeout_ms",
                    help="At most so long, in milliseconds.",
                ),
            },
            build(actions.ScrollToEnd),
        ),
        "scrape": Object({}, build(actions.ScrapeAction)),
        "executeJavascript": Object(
            {"script": need(Text(), "script", "The JavaScript to run.")},
            build(actions.ExecuteJavascript),
        ),
        "pdf": Object(
            {
                "landscape": Key(Bool(), "landscape", help="Rotate the paper."),
                "scale": Key(Number(0.1, 2), "scale", help="1 is the natural size."),
                "format": Key(
                    choice(*_PAPER_SIZES.split()), "format", help="The paper."
                ),
            },
            build(actions.Pdf),
        ),
    }
    return Array(Tagged(kinds, shorthand=False), MAX_ACTIONS)


# The Python client's model of the action has a quality, too.
ACTIONS_V1 = _actions({key: SCREENSHOT[key] for key in ("fullPage", "quality")})
ACTIONS_V2 = _actions(SCREENSHOT)

# Jobs.


@frozen
class UrlOr:
    """An object; a URL alone stands for the object with this ``url``."""

    expected: ClassVar[str] = "object"

    kind: Object

    def read(self, value: Any, at: Position) -> Any:
        if isinstance(value, str):
            url = URL.read(value, at)
            return INVALID if url is INVALID else self.kind.make({"url": url}, at)
        return self.kind.read(value, at)


def unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``names`` without repetitions."""
    return tuple(dict.fromkeys(names))


def _check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    if (size := len(json.dumps(metadata))) > MAX_HOOK_METADATA:
        raise ValueError(f"must be at most {MAX_HOOK_METADATA} bytes, got {size}")
    return metadata


def webhook_kind(
    prefix: str,
    kinds: tuple[str, ...] = EVENTS,
    usual: tuple[str, ...] = COMMON_EVENTS,
) -> ValueKind:
    """Return the webhook of a job whose events may be written ``prefix.event``.

    ``usual`` are the events of a webhook that names none.
    """
    names = {name: name for name in kinds}
    events = Choice({**names, **{f"{prefix}.{name}": name for name in kinds}})
    return UrlOr(
        Object(
            {
                "url": need(URL, "url", "The URL that receives a POST per event."),
                "headers": Key(HEADERS, "headers", help="Headers of each delivery."),
                "metadata": Key(
                    Then(Schema(), _check_metadata),
                    "metadata",
                    help="Values that each delivery repeats.",
                ),
                "events": Key(
                    Then(Array(events, MAX_EVENTS), unique),
                    "events",
                    help="The events to send.",
                ),
            },
            build(Webhook, events=usual),
        )
    )


def product_token(text: str) -> str:
    """Return the name of a user agent if it is printable, else a ValueError."""
    if not text.isprintable():
        raise ValueError("must not have control characters")
    return text


def sitemap_v1(is_ignored: bool) -> str:
    """Return the mode of sitemaps that ``ignoreSitemap`` stands for."""
    return "skip" if is_ignored else "include"


# Searches.


def words(text: str) -> str:
    """Return ``text`` unless it is blank, else raise ValueError."""
    if not text.strip():
        raise ValueError("must not be empty, got " + short(text))
    return text


def query_text(text: str) -> str:
    """Return the words of a search without spaces around them, else a ValueError."""
    if not text.strip():
        raise ValueError("query must not be empty")
    return text.strip()


def language_code(text: str) -> str:
    """Return the language code of a tag: ``en`` for ``en-US``."""
    code = text.strip().replace("_", "-").partition("-")[0].lower()
    if not (2 <= len(code) <= 3 and code.isascii() and code.isalpha()):
        raise ValueError(f"not a language code: {text[:20]!r}")
    return code


def searcher_country(text: str) -> str:
    """Return a country's code of two letters in lower case, else a ValueError."""
    code = text.strip().lower()
    if not (len(code) == 2 and code.isascii() and code.isalpha()):
        raise ValueError(f"country must be a code of two letters, got {text[:20]!r}")
    return code


def time_of_results(text: str) -> map_search.TimeFilter | None:
    """Return the filter that a ``tbs`` stands for, None for an empty one."""
    return map_search.time_filter(text) if text.strip() else None


def _category(name: str) -> Object:
    return Object({}, lambda values, at: name)


CATEGORIES = Then(
    Array(Tagged({name: _category(name) for name in map_search.CATEGORIES}), 10), unique
)
DOMAINS = Array(Then(Text(), urls.caller_domain), map_search.MAX_DOMAINS)
