"""What the requests of both versions have in common: tables of fields, and assembly.

The rules are those of the interface document, parts 1.7, 1.11 and 3 to 6. Defaults are
the versions' own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
from attrs import evolve

from scraper_service.options import formats, urls
from scraper_service.options.jobs import PageOptions
from scraper_service.options.scrape import (
    CHANGE_WAIT_MS,
    DEFAULT_COUNTRY,
    MAX_WAIT_MS,
    Location,
    Profile,
    ScrapeOptions,
    SiteRules,
    broken_rules,
    country_code,
    language_tag,
    profile_name,
)
from scraper_service.options.structure import (
    Array,
    Field,
    Kind,
    Object,
    Pairs,
    Place,
    Then,
)
from scraper_service.options.values import (
    Anything,
    Bool,
    Choice,
    Refused,
    Text,
    choice,
    integer,
)

FieldsT: TypeAlias = Mapping[str, Field]
SpellT: TypeAlias = Callable[[str], str]

MAX_PROMPT = 10_000  # characters
MAX_SITES = 1000  # entries of one list of threatProtection
EXPERIMENTAL = "__experimental_"

# The old default of v1, which its client always sends: read as "no choice made".
UNCHOSEN_TIMEOUT_MS = 30_000
MODEL_TIMEOUT_MS = 60_000
PROXY_TIMEOUT_MS = 120_000


def build(
    cls: Callable[..., Any], **defaults: Any
) -> Callable[[dict[str, Any], Place], Any]:
    """Make a ``make`` for :class:`Object` that calls ``cls`` with the values."""

    def make(values: dict[str, Any], at: Place) -> Any:
        return cls(**{**defaults, **values})

    return make


def pick(name: str) -> Callable[[dict[str, Any], Place], Any]:
    """Make a ``make`` for :class:`Object` that returns one of the values."""

    def make(values: dict[str, Any], at: Place) -> Any:
        return values[name]

    return make


def need(kind: Kind, to: str) -> Field:
    return Field(kind, to, required=True)


VIEWPORT = Object(
    {
        "width": need(integer(1, 7680), "width"),
        "height": need(integer(1, 4320), "height"),
    },
    build(formats.Viewport),
)

SCREENSHOT_FIELDS: FieldsT = {
    "fullPage": Field(Bool(), "full_page"),
    "quality": Field(integer(1, 100), "quality"),
    "viewport": Field(VIEWPORT, "viewport"),
}

# Formats without options, by their name in JSON.
PLAIN_FORMATS: Mapping[str, formats.Format] = {
    "markdown": formats.Markdown(),
    "html": formats.Html(),
    "rawHtml": formats.RawHtml(),
    "links": formats.Links(),
    "images": formats.Images(),
    "summary": formats.Summary(),
    "branding": formats.Branding(),
    "product": formats.Product(),
    "menu": formats.Menu(),
    "audio": formats.Audio(),
    "video": formats.Video(),
    "rawBase64": formats.RawBase64(),
}

LOCATION = Object(
    {
        "country": Field(Then(Text(), country_code), "country"),
        "languages": Field(Array(Then(Text(), language_tag), 20), "languages"),
    },
    build(Location, country=DEFAULT_COUNTRY),
)

_SITES = Array(Then(Text(), urls.caller_domain), MAX_SITES)


def _site_rules(values: dict[str, Any], at: Place) -> Any:
    if values.pop("mode", "off") != "off":
        text = "a mode other than 'off' needs a scanning provider, there is none here"
        return (at / "mode").report("custom", text)
    return SiteRules(**values) if any(values.values()) else None


THREAT_PROTECTION = Object(
    {
        "mode": Field(choice("off", "manual-only", "normal", "zscaler"), "mode"),
        "blacklist": Field(_SITES, "blacklist"),
        "whitelist": Field(_SITES, "whitelist"),
        "blockedTlds": Field(_SITES, "blocked_tlds"),
        "riskScoreThreshold": Field(integer(0, 100)),
        "failurePolicy": Field(choice("open", "closed")),
    },
    _site_rules,
)

# Options of both versions; the last group says who asks, and is for the log.
SCRAPE_FIELDS: FieldsT = {
    "headers": Field(Then(Pairs(Text()), urls.caller_headers), "headers"),
    "includeTags": Field(Then(Array(Text()), urls.caller_selectors), "include_tags"),
    "excludeTags": Field(Then(Array(Text()), urls.caller_selectors), "exclude_tags"),
    "onlyMainContent": Field(Bool(), "only_main_content"),
    "waitFor": Field(integer(0, MAX_WAIT_MS), "wait_for_ms"),
    "mobile": Field(Bool(), "mobile"),
    "location": Field(LOCATION, "location"),
    "skipTlsVerification": Field(Bool(), "skip_tls_verification"),
    "removeBase64Images": Field(Bool(), "remove_base64_images"),
    "fastMode": Field(Bool(), "fast_mode"),
    "blockAds": Field(Bool(), "block_ads"),
    "proxy": Field(
        Choice({**{p: p for p in ("basic", "stealth", "auto")}, "enhanced": "stealth"}),
        "proxy",
    ),
    "maxAge": Field(integer(0), "max_age_ms"),
    "storeInCache": Field(Bool(), "store_in_cache"),
    "lockdown": Field(Bool(), "lockdown"),
    "profile": Field(
        Object(
            {
                "name": need(Then(Text(), profile_name), "name"),
                "saveChanges": Field(Bool(), "save_changes"),
            },
            build(Profile),
        ),
        "profile",
    ),
    "threatProtection": Field(THREAT_PROTECTION, "site_rules"),
    "redactPII": Field(Refused("it needs a language model", objects=True)),
    "checkPromptInjection": Field(Bool(), "check_prompt_injection"),
    "domainTools": Field(Anything()),
    "toolDetail": Field(choice("compact", "summary", "full")),
    "useMock": Field(Anything()),
    "useIndex": Field(Anything()),
    "__searchPreviewToken": Field(Anything()),
    "origin": Field(Text(1024), "origin"),
    "integration": Field(Text(256), "integration"),
    "auditMetadata": Field(
        Object({"username": need(Text(1024), "username")}, pick("username")),
        "audit_username",
    ),
}

URL = Then(Text(), urls.caller_url)

# What a request for one page has beside the options.
REQUEST_FIELDS: FieldsT = {
    "url": need(URL, "url"),
    "zeroDataRetention": Field(Bool(), "zero_data_retention"),
}


def scrape_options(values: Mapping[str, Any], at: Place, spell: SpellT) -> Any:
    """Return ``ScrapeOptions`` from complete ``values``, or report what breaks a rule.

    ``values`` may hold more than the attributes of the class.
    """
    chosen = {a.name: values[a.name] for a in attrs.fields(ScrapeOptions)}
    try:
        chosen["formats"] = formats.merged(chosen["formats"])
    except ValueError as error:
        return (at / "formats").report("custom", str(error))
    options = ScrapeOptions(**chosen)
    if broken := broken_rules(options, spell):
        return at.below(broken)
    return patient(options)


def page_options(values: Mapping[str, Any], scrape: ScrapeOptions) -> PageOptions:
    """Return the options of one page from the ``values`` of a request."""
    names = {a.name for a in attrs.fields(PageOptions)} - {"scrape"}
    given = {name: values[name] for name in names & values.keys()}
    return PageOptions(scrape=scrape, **given)


def patient(options: ScrapeOptions) -> ScrapeOptions:
    """Return ``options`` with more time for slow work, if the caller chose none.

    Where several kinds of slow work are asked for, the longest time counts.
    """
    if options.timeout_ms != UNCHOSEN_TIMEOUT_MS:
        return options
    timeout_ms, wait_for_ms = options.timeout_ms, options.wait_for_ms
    if options.format(formats.Json):
        timeout_ms = MODEL_TIMEOUT_MS
    if options.format(formats.ChangeTracking):
        timeout_ms = MODEL_TIMEOUT_MS
        wait_for_ms = max(wait_for_ms, CHANGE_WAIT_MS)
    if options.proxy in {"stealth", "auto"}:
        timeout_ms = PROXY_TIMEOUT_MS
    return evolve(options, timeout_ms=timeout_ms, wait_for_ms=wait_for_ms)


# Public clients always send these, they are refused unless they ask for nothing, or what
# they ask for is always so (no map is cached).
_SILENT = {"ignoreCache", "redactPII", "toolDetail", "urlTrace"}


def ignored_names(fields: FieldsT) -> frozenset[str]:
    """Return the keys that are accepted without effect and worth a warning."""
    return frozenset(
        key
        for key, field in {**SCRAPE_FIELDS, **fields}.items()
        if field.to is None and key not in _SILENT and not key.startswith("__")
    )


def wire_names(fields: FieldsT) -> dict[str, str]:
    """Return the JSON key of each attribute that a field of ``fields`` sets."""
    return {
        field.to: key
        for key, field in fields.items()
        if field.to is not None and not field.alias
    }


def camel_case(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)
