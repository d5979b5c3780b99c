"""Crawls asked for by a sentence (interface document, 11.1 and 11.10)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.api.errors import Answer, error_body, issue_members
from scraper_service.api.fields.common import (
    EXPERIMENTAL,
    MAX_PROMPT,
    SCRAPE_FIELDS,
    need,
)
from scraper_service.api.page_json import encode
from scraper_service.api.v2 import requests
from scraper_service.discovery.crawl_prompt import MAX_PAGES
from scraper_service.errors import InvalidOptions, Issue, PromptUnclear
from scraper_service.options.job_arguments import options_to_json
from scraper_service.options.structure import Object, Then, short, structure
from scraper_service.options.urls import caller_url
from scraper_service.options.values import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.application import Body
    from scraper_service.discovery.crawl_prompt import Derived
    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.options.structure import Place
    from scraper_service.services.accounts import Team
    from scraper_service.services.service import ScraperService

# What a prompt may set, by the names inside the service.
DERIVED = (
    *("include_paths", "exclude_paths", "max_discovery_depth", "crawl_entire_domain"),
    *("allow_external_links", "allow_subdomains", "sitemap", "delay_s", "limit"),
    *("ignore_query_parameters", "deduplicate_similar_urls"),
)
NOTHING = (
    "The prompt names nothing that a crawl can be told: the options are as without."
)


@frozen
class PreviewRequest:
    """A body that asks what a prompt would make of a crawl."""

    url: str
    prompt: str
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None


def _whole_url(text: str) -> str:
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError(f"url must begin with http:// or https://, got {short(text)}")
    return caller_url(text)


def _made(values: dict[str, Any], at: Place) -> PreviewRequest:
    return PreviewRequest(**values)


PREVIEW = Object(
    {
        "url": need(Then(Text(), _whole_url), "url"),
        "prompt": need(Text(MAX_PROMPT, minimum=1), "prompt"),
        **{k: SCRAPE_FIELDS[k] for k in ("origin", "integration", "auditMetadata")},
    },
    _made,
    EXPERIMENTAL,
)


def preview_request(body: object) -> PreviewRequest:
    """Return what a body of ``POST /v2/crawl/params-preview`` asks for.

    :raises InvalidOptions: with every fault found.
    """
    request: PreviewRequest = structure(PREVIEW, body, requests.WHERE)
    return request


def refused(error: InvalidOptions) -> Answer:
    """Answer a body that is not as it should be."""
    faults = "; ".join(issue.message for issue in error.issues)
    members = error_body(
        f"Invalid request parameters: {faults}",
        code="BAD_REQUEST",
        details=[issue_members(issue) for issue in error.issues],
    )
    return Answer(400, members)


def answered(url: str, found: Derived) -> bytes:
    """Answer what a prompt asks for.

    Raises :exc:`PromptUnclear` if that is nothing.
    """
    if not found.values:
        raise _unclear(found)
    data = {"url": url, **requests.derived_fields(found.values)}
    members: dict[str, Any] = {"success": True, "data": data}
    if found.warnings:
        members["warning"] = " ".join(found.warnings)
    return encode(members)


def _unclear(found: Derived) -> PromptUnclear:
    return PromptUnclear(" ".join(found.warnings) or "it names nothing of a crawl.")


def check(values: Mapping[str, Any]) -> None:
    """Raise :exc:`InvalidOptions` for options that no body and no prompt may have."""
    if (limit := values.get("limit", 1)) > MAX_PAGES:
        message = f"limit must be <= {MAX_PAGES}, got {limit}"
        raise InvalidOptions([Issue("too_big", ("limit",), message)])
    requests.crawl_options(
        {"url": "http://localhost/", **requests.derived_fields(values)}
    )


def filled(values: Mapping[str, Any], body: Any) -> CrawlOptions:
    """Return the options of a body of a crawl, with ``values`` where it has none."""
    asked = {
        key: value
        for key, value in body.items()
        if value is not None and key not in requests.EXPLAIN_ONLY
    }
    return requests.crawl_options({**requests.derived_fields(values), **asked})


async def prompted(
    service: ScraperService, body: Body, options: CrawlOptions, team: Team
) -> tuple[CrawlOptions, dict[str, Any]]:
    """Return the options of a crawl as its prompt fills them, and what to say of it.

    Without a prompt they are as they were.
    """
    if options.prompt is None:
        return options, {}
    found = await service.preview(options.url, options.prompt, team, check)
    if found.is_refused and not found.values:
        raise _unclear(found)
    final = await body.read(partial(filled, dict(found.values)))
    values = options_to_json(final)
    facts: dict[str, Any] = {
        "promptGeneratedOptions": requests.derived_fields(found.values),
        "finalCrawlerOptions": requests.derived_fields(
            {k: values[k] for k in DERIVED if values[k] is not None}
        ),
    }
    warnings = [*found.warnings, *([] if found.values else [NOTHING])]
    if warnings:
        facts["warning"] = " ".join(warnings)
    return final, facts
