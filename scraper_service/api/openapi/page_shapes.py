"""The objects of a page in responses, webhooks and streams (docs/api/scrape.md, Documents of a page)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from scraper_service.api.schemas import (
    TEXT,
    Id,
    Integer,
    JsonObject,
    Maybe,
    Shape,
    ShapeT,
    Time,
    Url,
    json_object,
    member,
    one_of,
    ref,
)
from scraper_service.items import LOSS_KINDS
from scraper_service.options.formats import FORMATS

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
    """What the service knows of a page, of a :class:`PageMetadata`."""

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

    compared_text: Maybe[str] = member(
        "Of a monitor: the Markdown of the parts that it compares.", own=True
    )
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
