"""Responses as JSON, as far as both versions share them: pages, maps, searches, jobs.

Page values come as JSON text from the converter pool and are only joined here. The objects of
a page are those of webhooks and streams, too (docs/api/scrape.md, Documents of a page).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from attrs import evolve

from scraper_service.api.schemas import (
    TEXT,
    Id,
    Integer,
    JsonObject,
    Maybe,
    Shape,
    ShapeT,
    Success,
    Time,
    Url,
    camel,
    encode,
    json_object,
    member,
    one_of,
    ref,
    success,
)
from scraper_service.discovery.map_results import BETWEEN
from scraper_service.items import LOSS_KINDS
from scraper_service.options.formats import FORMATS
from scraper_service.storage.files.artefacts import BASE
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.items import Page, PageMetadata
    from scraper_service.options.jobs import PageOptions
    from scraper_service.services.map_search import Map, Result
    from scraper_service.storage.job_records import Job


PageJson: TypeAlias = Annotated[Any, ref("Page")]
_Texts: TypeAlias = str | list[str]


class _Loss(JsonObject):
    kind: Annotated[str, one_of(*LOSS_KINDS)]
    count: int
    reason: str = member("Why, and the option that would bring it.")
    urls: Maybe[list[Url]]
    texts: Maybe[list[str]] = member("Labels and captions of what was lost.")


class _Chunk(JsonObject):
    page: int
    page_count: int
    token_count: int
    next_page: Maybe[int]


class KnownMetadata(JsonObject):
    """The facts that the service itself adds to a :class:`PageMetadata`."""

    source_url: str = member(
        "The URL as the caller wrote it; of a file its name.", key="sourceURL"
    )
    url: Maybe[str] = member("The URL after redirects.")
    status_code: Maybe[Integer] = member("The status of the site.")
    scrape_id: Id = member("For GET /scrape/{id}.")
    source_scrape_id: Maybe[Id] = member(
        "Of a reprocessed page: the page whose response was read.", own=True
    )
    content_type: Maybe[str]
    x_robots_tag: Maybe[str] = member(source="robots_tag")
    sitemap_lastmod: Maybe[str] = member(
        "The lastmod of the URL in a sitemap.", own=True
    )
    proxy_used: Literal["basic", "stealth"]
    engine: Maybe[Literal["http", "browser"]] = member(own=True)
    timezone: Maybe[str] = member(source="time_zone")
    cache_state: Maybe[Literal["hit", "miss"]]
    cached_at: Maybe[Time]
    unchanged: Maybe[bool] = member(
        "True if the page of the last check stands for an unchanged one.",
        source=lambda facts: facts.is_unchanged or None,
        own=True,
    )
    change_status: Maybe[Literal["new", "changed"]] = member(source="change", own=True)
    credits_used: Maybe[int]
    answered_by: Maybe[Literal["rules", "model", "both", "selectors"]] = member(
        own=True
    )
    tokens_used: Maybe[int] = member(own=True)
    num_pages: Maybe[int] = member("The parsed pages of a file.")
    total_pages: Maybe[int] = member("All pages of a file.")
    token_count: Maybe[int] = member(
        "Tokens of the whole Markdown, estimated.", own=True
    )
    chunk: Maybe[Annotated[Any, _Chunk.shape]] = member(own=True)
    redacted: Maybe[dict[str, int]] = member(
        "Replaced personal data by kind.", own=True
    )
    losses: Maybe[list[_Loss]] = member(
        "Parts of the page that no format contains.",
        source=lambda facts: facts.losses or None,
        own=True,
    )
    embedded_url: Maybe[str] = member(
        "The embedded document whose text is that of the page.", own=True
    )
    error: Maybe[str] = member("Why the page failed, or the phrase of its status.")
    duplicate_of: Maybe[str] = member(own=True)
    concurrency_limited: Maybe[bool] = member(
        source=lambda facts: None if facts.queued_ms is None else True
    )
    concurrency_queue_duration_ms: Maybe[int] = member(source="queued_ms")


class Metadata(KnownMetadata, further=_Texts):
    """The metadata of a page, also those that it has itself."""

    last_modified: Maybe[Time] = member("The header Last-Modified.", own=True)
    verdict: Maybe[_Texts] = member(own=True)
    verdict_evidence: Maybe[_Texts] = member(own=True)
    title: Maybe[_Texts]
    description: Maybe[_Texts]
    language: Maybe[_Texts]
    og_locale_alternate: Maybe[list[str]]


class _Change(JsonObject):
    type: Literal["add", "del", "normal"]
    content: str
    ln: Maybe[int]
    ln1: Maybe[int]
    ln2: Maybe[int]
    normal: Maybe[bool]


class _Changes(JsonObject):
    content: str
    changes: list[_Change]
    old_start: Maybe[int]
    old_lines: Maybe[int]
    new_start: Maybe[int]
    new_lines: Maybe[int]


class _File(JsonObject):
    before: str | None = member(key="from")
    after: str | None = member(key="to")
    chunks: list[_Changes]


class _Diff(JsonObject):
    text: str
    json: Annotated[Any, json_object(files=list[_File])]


class _ChangeTracking(JsonObject):
    previous_scrape_at: Time | None
    change_status: Literal["new", "same", "changed", "removed"]
    visibility: Literal["visible", "hidden"]
    diff: Maybe[_Diff]
    json: Maybe[Any] = member("Of each changed field, previous and current.")


_BLOCKS = json_object(page_number=int, status=str, items=list[dict[str, Any]])


class _Actions(JsonObject):
    screenshots: list[str] = member("URLs of files.")
    scrapes: list[Annotated[Any, json_object(url=str, html=str)]]
    javascript_returns: list[Annotated[Any, json_object(type=str, value=Any)]]
    pdfs: list[str] = member("URLs of files.")


class _Attributes(JsonObject):
    selector: str
    attribute: str
    values: list[str]


_Object: TypeAlias = Maybe[
    Annotated[Any, Shape(type=["object", "null"], additionalProperties={})]
]


class _PageMembers(JsonObject):
    """The members of a page that are no text, and texts with a description."""

    links: Maybe[list[str]]
    images: Maybe[list[str]]
    screenshot: Maybe[str] = member("The URL of a file.")
    json: Maybe[Any]
    extract: Maybe[Any]
    change_tracking: Maybe[_ChangeTracking]
    attributes: Maybe[list[_Attributes]]
    product: _Object
    menu: _Object
    branding: _Object
    actions: Maybe[_Actions]
    pages: Maybe[list[Annotated[Any, json_object(page_number=int, markdown=str)]]]
    blocks: Maybe[list[Annotated[Any, _BLOCKS]]]
    metadata: Maybe[Annotated[Any, ref("Metadata")]]
    warning: Maybe[str]


RESULT_MEMBERS: dict[str, ShapeT] = {
    **{row.key: TEXT for row in FORMATS if not row.missing},
    **_PageMembers.shape["properties"],
}
PAGE = Shape(type="object", properties=RESULT_MEMBERS, required=["metadata"])


def with_page(result: type[JsonObject]) -> Shape:
    """Return the schema of a search result with the members of its page."""
    members = {**RESULT_MEMBERS, **result.shape["properties"]}
    return Shape(result.shape, properties=members)


# Keys of the service's own facts: a <meta> of the page never replaces them.
RESERVED = frozenset(
    Metadata.shape["properties"].keys() - {"description", "language", "title"}
    | set(
        "canonicalUrl feeds headline postprocessorsUsed readingTime wordCount".split()
    )
)
# A public client renames these keys (``num_pages``) and checks their types. A <meta> of
# such a name would make all pages of a job unreadable for this client.
_RENAMED = frozenset(name.lower() for name in RESERVED)


def _is_reserved(name: str) -> bool:
    return name in RESERVED or (
        "_" in name and name.replace("_", "").lower() in _RENAMED
    )


def page_json(page: Page) -> bytes:
    """Return the page object: requested formats, ``metadata`` and ``warning``."""
    values = dict(page.values)
    if (part := values.pop("part", None)) is not None:
        values["markdown"] = part
    members = [(camel(name), value) for name, value in values.items()]
    members.append(("metadata", encode(page_metadata(page.metadata))))
    if page.warning:
        members.append(("warning", encode(page.warning)))
    joined = b",".join(b'"%s":%s' % (name.encode(), value) for name, value in members)
    return b"{%s}" % joined


def page_metadata(facts: PageMetadata) -> dict[str, Any]:
    """Return the metadata object without unknown facts."""
    result: dict[str, Any] = {
        name: value for name, value in facts.other.items() if not _is_reserved(name)
    }
    result.update((camel(name), value) for name, value in facts.known.items())
    result.update(KnownMetadata.of(facts))
    return result


def map_response(found: Map, facts: Mapping[str, Any]) -> bytes:
    """Return the response of a map with the members ``facts``.

    The JSON of its URLs is only joined.
    """
    end = b"," + encode(facts)[1:] if facts else b"}"
    return b'{"success":true,"links":[%s]%s' % (BETWEEN.join(found.slices), end)


_EMPTY = frozenset({b"", b"null", b'""', b"[]", b"{}"})


def search_item(facts: Mapping[str, Any], page: Page | None = None) -> bytes:
    """Return a search result with its page, or with the error of a failed page.

    Keys with None are left out: clients treat a key with null differently.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    if page is None:
        return encode(known)
    if page.failure is not None:
        return encode({**known, "metadata": _failure(page)})
    return encode(known)[:-1] + b"," + page_json(page)[1:]


def has_content(result: Result) -> bool:
    """Return True if a result's page has any requested format."""
    page = result.page
    if page is None or page.failure is not None:
        return False
    return any(value.strip() not in _EMPTY for value in page.values.values())


def failed_search_item(facts: Mapping[str, Any], page: Page) -> bytes:
    """Return a search result whose page has no content."""
    known = {name: value for name, value in facts.items() if value is not None}
    return encode({**known, "metadata": _failure(page)})


def json_array(items: list[bytes]) -> bytes:
    return b"[%s]" % b",".join(items)


def _failure(page: Page) -> dict[str, Any]:
    facts = page.metadata
    error = page.failure.message if page.failure else facts.error
    return {
        # The Python and JS clients accept any number; 0 stands for no response.
        "statusCode": facts.status_code or 0,
        "error": error or "No content found.",
        "proxyUsed": facts.proxy_used,
        "scrapeId": facts.scrape_id,
        "sourceURL": facts.source_url,
    }


class Scraped(Success):
    """The response to a scrape."""

    data: PageJson
    scrape_id: Maybe[Id] = member(key="scrape_id")


def scrape_response(page: Page, options: PageOptions) -> bytes:
    """Return the response to a scrape that has not failed."""
    members = [b'"success":true', b'"data":' + page_json(page)]
    if "website" in options.origin:
        members.append(b'"scrape_id":' + encode(page.metadata.scrape_id))
    return b"{%s}" % b",".join(members)


def join_sentences(*sentences: str | None) -> str | None:
    """Join the sentences that are there to one warning; return None without any."""
    return " ".join(filter(None, sentences)) or None


def warning_of(*sentences: str | None) -> dict[str, Any]:
    """Return the member ``warning`` of a response; no member if all are None."""
    text = join_sentences(*sentences)
    return {} if text is None else {"warning": text}


def with_base(body: bytes, base: str) -> bytes:
    """Return a response with the URL of the service put into the URLs of its files."""
    return body.replace(BASE.encode(), base.encode())


# -- jobs --------------------------------------------------------------------------------


def job_state(state: JobState) -> str:
    """Return the name of a state; a queued job is shown as scraping."""
    return "scraping" if state is JobState.QUEUED else state.value


JobStatus: TypeAlias = Annotated[
    str, one_of("scraping", "completed", "failed", "cancelled"), job_state
]
PATHS = {"crawl": "crawl", "batch": "batch/scrape"}


def job_url(job: Job, base: str, version: int) -> str:
    """Return the URL of the status of a job."""
    return f"{base}/v{version}/{PATHS[job.kind]}/{job.id}"


class JobStarted(Success):
    """The response to the start of a job."""

    id: Id
    url: Url = member("The URL of the status.")
    warning: Maybe[str]


class BatchStarted(JobStarted):
    """The response to the start of a batch."""

    invalid_urls: Maybe[list[str]] = member(
        "The URLs that were left out.", key="invalidURLs"
    )


class JobReprocessed(JobStarted):
    """The response to a job that reads the stored responses of another."""

    source_job_id: Id = member("The job whose responses are read.")


def job_error(job: Job) -> str | None:
    """Return why a job failed; None if it did not."""
    if job.state is not JobState.FAILED:
        return None
    return job.error or "The job failed."


class JobStatusJson(Success):
    """The status of a job."""

    status: JobStatus = member(source="state")
    total: int = member("Pages accepted so far, failed ones too.")
    completed: int = member("Pages in data, over all chunks.", source="pages")
    credits_used: int = member(source="credits")
    expires_at: Time
    source_job_id: Maybe[Id] = member(
        "The job whose stored responses this job reads.", own=True
    )
    since_job_id: Maybe[Id] = member(
        "The earlier crawl that pages are compared with.", source="since", own=True
    )
    paused: Maybe[Literal[True]] = member(
        "Only while the job is paused.",
        source=lambda job: None if job.paused_at is None else True,
        own=True,
    )
    paused_at: Maybe[Time] = member(own=True)
    error: Maybe[str] = member("Why the job failed.", source=job_error)
    next: Maybe[Url] = member("The URL of the next chunk.")
    data: list[PageJson]


class PageErrorJson(JsonObject):
    """A page of a job that failed."""

    id: Id
    timestamp: Time = member(source="at")
    url: str
    code: str
    error: str


class JobErrors(Success):
    """The pages of a job that failed, and the URLs that robots.txt disallows."""

    errors: list[PageErrorJson]
    robots_blocked: list[str]


class JobCancelled(Success):
    """The response to a cancel."""

    status: Literal["cancelled"]


class JobRetried(Success):
    """The response to a retry."""

    id: Id = member(source="job.id")
    status: JobStatus = member(source="job.state")
    retried: int = member("Pages that are fetched again.")
    warning: Maybe[str]


class _ChangedOptions(JsonObject):
    limit: Maybe[int]
    delay: float | None = member(source="delay_s")
    max_concurrency: int | None
    retention_days: float


class _Effect(JsonObject):
    admitted: int = member("From held to pending.")


class JobChangeJson(JsonObject):
    """A change of a job, of a :class:`~scraper_service.storage.job_records.JobChange`."""

    options: _ChangedOptions = member("The options in force that a change may set.")
    effect: _Effect = member("The number of URLs that the change has moved.")


class JobChanged(Success, JobChangeJson):
    """The response to a change of a job."""

    id: Id
    status: JobStatus
    paused: bool


class _ActiveCrawl(JsonObject):
    id: Id
    team_id: str
    url: str
    created_at: Time = member(key="created_at")
    options: dict[str, Any]


class ActiveCrawls(Success):
    """The running crawls of a team."""

    crawls: list[_ActiveCrawl]


def balance(unit: str, spelled: Callable[[str], str]) -> type[Success]:
    """Return the response with a balance in ``credits`` or ``tokens``."""
    amounts = {f"remaining_{unit}": Integer, f"plan_{unit}": Integer}
    times = {"billing_period_start": Time, "billing_period_end": Time}
    return success(data=json_object(spelled, **amounts, **times))


def job_status(
    job: Job,
    pages: list[bytes],
    bounds: tuple[int | None, ...],
    path: str,
    kind: type[JobStatusJson],
) -> bytes:
    """Return the status of a job with some of its pages.

    ``bounds`` are ``skip``, ``limit`` and, if it was given, ``maxTokens`` of the request.
    ``path`` is the absolute URL of the status.
    """
    skip, limit, *tokens = bounds
    following = None
    after = (skip or 0) + len(pages)
    # An empty part after ``skip`` has no ``next``: some clients would follow it in a
    # busy loop while the job runs.
    if job.pages > after or (job.is_active and (pages or skip is None)):
        more = f"&limit={limit}" if limit is not None else ""
        more += "".join(f"&maxTokens={most}" for most in tokens)
        following = f"{path}?skip={after}{more}"
    return b"%s%s]}" % (_up_to_pages(job, kind, following), b",".join(pages))


def job_snapshot(
    job: Job,
    pages: list[bytes],
    kind: type[JobStatusJson],
    state: JobState | None = None,
) -> list[bytes]:
    """Return the status of a job without ``next``, in parts to be joined.

    ``state`` replaces the job's own state.
    """
    front = _up_to_pages(job if state is None else evolve(job, state=state), kind)
    with_commas = [part for page in pages for part in (b",", page)][1:]
    return [front, *with_commas, b"]}"]


def _up_to_pages(
    job: Job, kind: type[JobStatusJson], following: str | None = None
) -> bytes:
    members = kind.of(job, next=following, data=())
    del members["data"]
    return encode(members)[:-1] + b',"data":['


def active_crawls(
    jobs: list[Job],
    crawl_names: Mapping[str, str],
    page_names: Mapping[str, str],
    spellings: SpellingsT,
) -> bytes:
    """Return the running crawls, with the names and spellings of a version.

    The names are the keys for options of a crawl and of a page. Options without a key are
    left out.
    """
    crawls = []
    for job in jobs:
        options = json.loads(job.options)
        scrape, _ = options.pop("scrape"), options.pop("url")
        spelled = spell_options(options, crawl_names, spellings)
        spelled["scrapeOptions"] = spell_options(scrape, page_names, spellings)
        crawls.append(_ActiveCrawl.of(job, options=spelled))
    return ActiveCrawls.to_json(crawls=crawls)


def spell_options(
    options: Mapping[str, Any], names: Mapping[str, str], spellings: SpellingsT
) -> dict[str, Any]:
    """Return stored options as a request spells them.

    ``names`` are the keys of a request by attribute. Options without a key are left out.
    """
    return {
        names[name]: spellings[name](value) if name in spellings else value
        for name, value in options.items()
        if name in names and value not in (None, [])
    }


def _spell_formats(values: list[dict[str, Any] | str]) -> list[Any]:
    """Return formats and the like; the name alone for a format without options."""
    spelled: list[Any] = []
    for value in values:
        if isinstance(value, str):
            spelled.append(value)
            continue
        item = {camel(k): v for k, v in value.items() if v is not None and v != ""}
        item["type"] = camel(item["type"])
        spelled.append(item if len(item) > 1 else item["type"])
    return spelled


SpellingsT: TypeAlias = "Mapping[str, Callable[[Any], Any]]"
#: Options with another form in bodies, by attribute.
SPELLINGS: SpellingsT = {
    "actions": _spell_formats,
    "formats": _spell_formats,
    "headers": dict,
    "parsers": _spell_formats,
    "site_rules": lambda rules: {camel(k): v for k, v in rules.items()},
}
