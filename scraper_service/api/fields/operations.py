"""Bodies that start operations (interface document, parts 15.1, 16.1 and 16.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve, frozen

from scraper_service.api.fields import common
from scraper_service.api.fields.common import FieldsT, need
from scraper_service.api.fields.jobs import CRAWL_FIELDS
from scraper_service.options import urls
from scraper_service.options.formats import Json, Markdown
from scraper_service.options.operations import (
    MAX_DEPTH,
    MAX_EXTRACT_URLS,
    MAX_LLMS_URLS,
    MAX_RESEARCH_S,
    MAX_RESEARCH_URLS,
    MIN_RESEARCH_S,
    SITE,
    ExtractOptions,
    LlmsTextOptions,
    ResearchOptions,
)
from scraper_service.options.structure import (
    INVALID,
    Array,
    Field,
    Kind,
    Object,
    Place,
)
from scraper_service.options.values import Bool, Schema, Text, choice, integer

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_QUERY = 10_000  # characters

_PROMPT = Text(common.MAX_PROMPT)
_CALLER_FIELDS: FieldsT = {
    key: CRAWL_FIELDS[key] for key in ("origin", "integration", "auditMetadata")
}

EXTRACT_DEFAULTS: Mapping[str, Any] = {
    "urls": (),
    "prompt": None,
    "system_prompt": None,
    "schema": None,
    "limit": None,
    "ignore_sitemap": False,
    "include_subdomains": True,
    "allow_external_links": False,
    "enable_web_search": False,
    "show_sources": False,
    "timeout_ms": None,
    "webhook": None,
}


@frozen
class ExtractRequest:
    """A body that starts an extract; ``invalid_urls`` as in a batch."""

    options: ExtractOptions
    invalid_urls: tuple[str, ...] | None = None


@frozen
class _Whole:
    """Options of a page that is read as a whole, unless they say otherwise."""

    expected: ClassVar[str] = "object"

    kind: Object

    def read(self, value: Any, at: Place) -> Any:
        if isinstance(value, dict) and value.get("onlyMainContent") is None:
            value = {**value, "onlyMainContent": False}
        return self.kind.read(value, at)


# In both versions; a model that is named makes no difference, its prompt does.
EXTRACT_FIELDS: FieldsT = {
    "urls": Field(Array(Text(), MAX_EXTRACT_URLS), "urls"),
    "prompt": Field(_PROMPT, "prompt"),
    "systemPrompt": Field(_PROMPT, "system_prompt"),
    "schema": Field(Schema(), "schema"),
    "limit": Field(integer(1), "limit"),
    "ignoreSitemap": Field(Bool(), "ignore_sitemap"),
    "includeSubdomains": Field(Bool(), "include_subdomains"),
    "allowExternalLinks": Field(Bool(), "allow_external_links"),
    "enableWebSearch": Field(Bool(), "enable_web_search"),
    "showSources": Field(Bool(), "show_sources"),
    "ignoreInvalidURLs": Field(Bool(), "ignore_invalid_urls"),
    "agent": Field(
        Object(
            {
                "model": Field(choice("FIRE-1", "v3-beta")),
                "prompt": Field(_PROMPT, "prompt"),
            }
        ),
        "agent",
    ),
    "timeout": Field(integer(1), "timeout_ms"),
    "urlTrace": Field(Bool()),
    "threatProtection": CRAWL_FIELDS["threatProtection"],
    **_CALLER_FIELDS,
}


def extract_kind(
    own: FieldsT,
    scrape_kind: Object,
    defaults: Mapping[str, Any],
    *,
    ignores_invalid: bool,
) -> Object:
    """Make the kind of a body that starts an extract.

    With a version's ``own`` fields and ``defaults``; ``ignores_invalid`` is that of
    ``ignoreInvalidURLs``.
    """
    whole = _Whole(scrape_kind)

    def make(values: dict[str, Any], at: Place) -> Any:
        return _extract(
            {"ignore_invalid_urls": ignores_invalid, **defaults, **values}, at, whole
        )

    scrape_options = {"scrapeOptions": Field(whole, "scrape")}
    return Object(
        {**EXTRACT_FIELDS, **own, **scrape_options}, make, common.EXPERIMENTAL
    )


def _extract(values: dict[str, Any], at: Place, scrape_kind: Kind) -> Any:
    scrape = values.pop("scrape", None) or scrape_kind.read({}, at / "scrapeOptions")
    lenient = values.pop("ignore_invalid_urls")
    agent = values.pop("agent", {})
    values.setdefault("prompt", agent.get("prompt"))
    if scrape is INVALID:
        return INVALID
    if (rules := values.pop("site_rules", None)) is not None:
        if scrape.site_rules is not None:
            text = "threatProtection must stand here or in scrapeOptions, not in both"
            return (at / "threatProtection").report("custom", text)
        scrape = evolve(scrape, site_rules=rules)
    given = values.get("urls", ())
    if not given and not values.get("prompt"):
        return at.report("custom", "urls or prompt is required")
    good, bad = _sorted_out(given)
    if bad and not (lenient and good):
        for index, fault in bad.items():
            (at / "urls" / index).report("custom", fault)
        return INVALID
    # The time of a page is more where it has data to be found in it.
    wanted = Json(
        prompt=values.get("prompt"),
        schema=values.get("schema"),
        system_prompt=values.get("system_prompt"),
    )
    scrape = common.patient(evolve(scrape, formats=(wanted,)))
    values["urls"] = tuple(dict.fromkeys(good))
    options = ExtractOptions(scrape=scrape, **{**EXTRACT_DEFAULTS, **values})
    left_out = tuple(given[index] for index in bad) if lenient else None
    return ExtractRequest(options, left_out)


def _sorted_out(given: tuple[str, ...]) -> tuple[list[str], dict[int, str]]:
    """Return the good addresses, and what is wrong with each other one by its index."""
    good: list[str] = []
    bad: dict[int, str] = {}
    for index, text in enumerate(given):
        is_site = text.rstrip().endswith(SITE)
        try:
            url = urls.caller_url(text.rstrip()[: -len(SITE)] if is_site else text)
        except ValueError as error:
            bad[index] = str(error)
            continue
        good.append(url.rstrip("/") + SITE if is_site else url)
    return good, bad


def llms_text_kind(scrape_kind: Kind) -> Object:
    """Make the kind of a body that asks for the text file of a site."""

    def make(values: dict[str, Any], at: Place) -> Any:
        scrape = scrape_kind.read({}, at)
        use_cache = values.get("use_cache", True)
        scrape = evolve(
            scrape,
            formats=(Markdown(),),
            max_age_ms=LLMS_CACHE_MS if use_cache else 0,
        )
        return LlmsTextOptions(scrape=scrape, **{**LLMS_DEFAULTS, **values})

    return Object(LLMS_FIELDS, make, common.EXPERIMENTAL)


LLMS_CACHE_MS = 172_800_000  # 2 days, as a scrape of v2
LLMS_DEFAULTS: Mapping[str, Any] = {
    "max_urls": 10,
    "show_full_text": False,
    "use_cache": True,
}
LLMS_FIELDS: FieldsT = {
    "url": need(common.URL, "url"),
    "maxUrls": Field(integer(1, MAX_LLMS_URLS), "max_urls"),
    "showFullText": Field(Bool(), "show_full_text"),
    "cache": Field(Bool(), "use_cache"),
    **_CALLER_FIELDS,
}

RESEARCH_DEFAULTS: Mapping[str, Any] = {
    "max_depth": 7,
    "max_urls": 20,
    "time_limit_s": 300,
    "analysis_prompt": None,
    "system_prompt": None,
    "formats": ("markdown",),
}


def research_kind(extraction: Kind, scrape_kind: Kind) -> Object:
    """Make the kind of a body that asks for research; ``extraction`` of jsonOptions."""

    def make(values: dict[str, Any], at: Place) -> Any:
        query = values.pop("query", None) or values.pop("topic", None)
        values.pop("topic", None)
        if not (query and query.strip()):
            return (at / "query").missing("string")
        given = values.pop("json", None)
        chosen = tuple(dict.fromkeys(values.pop("formats", ("markdown",))))
        if given is not None and "json" not in chosen:
            text = "jsonOptions is allowed only with the format json"
            return (at / "jsonOptions").report("custom", text)
        wanted = Json(**{"prompt": query, **(given or {})})
        scrape = evolve(scrape_kind.read({}, at), formats=(Markdown(),))
        values = {**RESEARCH_DEFAULTS, **values, "formats": chosen}
        return ResearchOptions(query=query, scrape=scrape, json=wanted, **values)

    own = {"jsonOptions": Field(extraction, "json")}
    return Object({**RESEARCH_FIELDS, **own}, make, common.EXPERIMENTAL)


RESEARCH_FIELDS: FieldsT = {
    "query": Field(Text(MAX_QUERY), "query"),
    "topic": Field(Text(MAX_QUERY), "topic"),
    "maxDepth": Field(integer(1, MAX_DEPTH), "max_depth"),
    "maxUrls": Field(integer(1, MAX_RESEARCH_URLS), "max_urls"),
    "timeLimit": Field(integer(MIN_RESEARCH_S, MAX_RESEARCH_S), "time_limit_s"),
    "analysisPrompt": Field(_PROMPT, "analysis_prompt"),
    "systemPrompt": Field(_PROMPT, "system_prompt"),
    "formats": Field(Array(choice("markdown", "json"), 10), "formats"),
    **_CALLER_FIELDS,
}
