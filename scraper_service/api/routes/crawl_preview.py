"""Crawl options from a prompt, and which URLs a crawl would fetch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from scraper_service.api.application import join_sentences, write
from scraper_service.api.errors import (
    WORK_ERRORS,
    ErrorResponse,
    error_body,
    issue_members,
)
from scraper_service.api.openapi.route import Route
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import (
    JsonObject,
    Maybe,
    Success,
    member,
    one_of,
    success,
)
from scraper_service.discovery.crawl_prompt import MAX_PAGES
from scraper_service.errors import InvalidOptions, Issue, PromptUnclear
from scraper_service.options import v2_requests as requests
from scraper_service.options.jobs import SITEMAP_MODES
from scraper_service.options.limits import Mode
from scraper_service.options.serialization import unstructure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.request_body import Body
    from scraper_service.discovery.crawl_prompt import PromptOptions
    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.services.accounts import Team
    from scraper_service.services.jobs import TeamJobs

# Options that a prompt may set, by their internal names.
DERIVED = (
    *("include_paths", "exclude_paths", "max_discovery_depth", "crawl_entire_domain"),
    *("allow_external_links", "allow_subdomains", "sitemap", "delay_s", "limit"),
    *("ignore_query_parameters", "deduplicate_similar_urls"),
)
NOTHING = "The prompt sets no option of a crawl: the options are those without it."


class _Preview(JsonObject, spelled=requests.wire_name):
    url: str
    include_paths: Maybe[list[str]]
    exclude_paths: Maybe[list[str]]
    max_discovery_depth: Maybe[int]
    crawl_entire_domain: Maybe[bool]
    allow_external_links: Maybe[bool]
    allow_subdomains: Maybe[bool]
    sitemap: Maybe[Annotated[str, one_of(*SITEMAP_MODES)]]
    ignore_query_parameters: Maybe[bool]
    deduplicate_similar_urls: Maybe[bool]
    delay: Maybe[float]
    limit: Maybe[int]


class _Previewed(Success):
    data: Annotated[Any, _Preview.shape]
    warning: Maybe[str]


class _Explained(JsonObject):
    url: str
    allowed: bool = member(source=lambda found: found.refusal is None)
    reason: Maybe[str] = member(
        "The rule that refuses the URL.", source="refusal.reason.value"
    )
    detail: Maybe[str] = member(
        "The pattern or limit of that rule.", source="refusal.rule"
    )
    robots: Maybe[Literal["allowed", "refused", "unknown"]]


_EXPLAINED = success(results=list[_Explained])


class CrawlPreviewRoutes(Routes):
    """What a crawl would do, without a crawl."""

    @Route(
        "POST /crawl/params-preview",
        returns=_Previewed,
        body="PREVIEW",
        example={
            "url": "https://docs.example.com",
            "prompt": "Only the guide, 50 pages",
        },
        errors=(*WORK_ERRORS, PromptUnclear),
    )
    async def preview(self, request: JsonRequest) -> bytes:
        """Return the options of a crawl that a prompt asks for."""
        team, body, _ = await self.checks.admit_work(request, Mode.CRAWL)
        try:
            parsed = await body.read(requests.preview_request)
        except InvalidOptions as error:
            return write(request, _invalid_body_response(error))
        found = await self.services.jobs.preview(parsed.url, parsed.prompt, team, check)
        return _preview_response(parsed.url, found)

    @Route(
        "POST /crawl/explain",
        returns=_EXPLAINED,
        body="EXPLAIN",
        example={"url": "https://example.com", "urls": ["https://example.com/a"]},
        errors=(PromptUnclear,),
        is_own=True,
    )
    async def explain(self, request: JsonRequest) -> bytes:
        """Return which URLs a crawl would fetch, and why not the others."""
        team, body = await self.checks.admit(request, Mode.CRAWL)
        parsed = await body.read(requests.explain_request)
        options, _ = await apply_prompt(self.services.jobs, body, parsed.options, team)
        found = await self.services.jobs.explain(options, parsed.urls, parsed.depth)
        return _EXPLAINED.to_json(results=found)


def _invalid_body_response(error: InvalidOptions) -> ErrorResponse:
    """Return the response to an invalid body."""
    faults = "; ".join(issue.message for issue in error.issues)
    members = error_body(
        f"Invalid request parameters: {faults}",
        code="BAD_REQUEST",
        details=[issue_members(issue) for issue in error.issues],
    )
    return ErrorResponse(400, members)


def _preview_response(url: str, found: PromptOptions) -> bytes:
    """Return the options that a prompt asks for.

    Raises :exc:`PromptUnclear` without any option.
    """
    if not found.values:
        raise _unclear(found)
    data = {"url": url, **requests.crawl_body(found.values)}
    return _Previewed.to_json(data=data, warning=join_sentences(*found.warnings))


def _unclear(found: PromptOptions) -> PromptUnclear:
    return PromptUnclear(" ".join(found.warnings) or "it sets no option of a crawl.")


def check(values: Mapping[str, Any]) -> None:
    """Raise :exc:`InvalidOptions` for values that neither body nor prompt may have."""
    if (limit := values.get("limit", 1)) > MAX_PAGES:
        message = f"limit must be <= {MAX_PAGES}, got {limit}"
        raise InvalidOptions([Issue("too_big", ("limit",), message)])
    requests.crawl_options({"url": "http://localhost/", **requests.crawl_body(values)})


async def apply_prompt(
    service: TeamJobs, body: Body, options: CrawlOptions, team: Team
) -> tuple[CrawlOptions, dict[str, Any]]:
    """Return the options of a crawl completed by its prompt, and members about this.

    Without a prompt return the options unchanged.
    """
    if options.prompt is None:
        return options, {}
    found = await service.preview(options.url, options.prompt, team, check)
    if found.is_refused and not found.values:
        raise _unclear(found)
    final = await body.read(partial(requests.fill, dict(found.values)))
    values = unstructure(final)
    facts: dict[str, Any] = {
        "prompt_generated_options": requests.crawl_body(found.values),
        "final_crawler_options": requests.crawl_body(
            {k: values[k] for k in DERIVED if values[k] is not None}
        ),
    }
    warnings = [*found.warnings, *([] if found.values else [NOTHING])]
    if warnings:
        facts["warning"] = " ".join(warnings)
    return final, facts
