"""Item pipelines: from converted content to the stored page, and to the page index."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define, evolve, field, frozen
from scrapy import signals
from scrapy.exceptions import DropItem, NotConfigured
from scrapy.utils.misc import load_object

from scraper_service.content.formats.change_tracking import GONE
from scraper_service.content.formats.summary_and_tokens import (
    count_and_cut,
    without_blocks,
)
from scraper_service.crawling import Component
from scraper_service.crawling.download.stored_responses import KeptSources
from scraper_service.crawling.observability import (
    CREDITS,
    PAGE_ERRORS,
    PAGE_SECONDS,
    PAGES,
)
from scraper_service.crawling.page_errors import SITE_BLOCKED, page_error
from scraper_service.crawling.pipelines.change_tracking import Changes
from scraper_service.crawling.proxies import Proxies
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.discovery.scope_rules import Reason
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import (
    DUPLICATE,
    UNCHANGED,
    Lease,
    LinkRowT,
    Page,
    PageContent,
    PageMetadata,
    SearchPage,
    SitemapFile,
    Tracked,
)
from scraper_service.options.formats import ChangeTracking
from scraper_service.options.limits import HTTP, BlockedSites, is_elsewhere, parse_sites
from scraper_service.options.urls import url_parts
from scraper_service.shared_objects import Singletons
from scraper_service.storage.accounts.credits import Prices
from scraper_service.storage.connections import insist
from scraper_service.storage.database import INDEX, NO_ANSWER, Database
from scraper_service.storage.frontier.job_counts import (
    READ_ROWS,
    DeliveredText,
    Repeats,
    texts_after,
)
from scraper_service.storage.job_records import (
    LOCAL_TEAM,
    CountedPage,
    Link,
    Outcome,
    UrlKind,
)
from scraper_service.storage.page_index import PageIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.items import Fetch
    from scraper_service.options.scrape import ScrapeOptions


QUEUED = "The page waited {:.1f} s: the team had as many under way as it may have."

PASSING = frozenset({408, 425, 429})  # statuses of a temporary failure, beside 5xx
UNTRACKED = (
    "The site answered {}: the page was not compared with an earlier one, nor kept for"
    " the next comparison."
)
NO_FAILURES = frozenset({DUPLICATE, UNCHANGED})  # codes of pages that are left out
MAX_HOST = 260  # characters
REMEMBERED_AT_ONCE = 10_000  # links before other tasks run; about a millisecond


class PagePipeline(Component):
    """Joins content and facts of the fetch into a :class:`~scraper_service.items.Page`.

    Handles fetched, failed and refused pages in the same way. Stats: ``pages/completed``,
    ``pages/failed``, ``pages/failed/<code>``.
    """

    def __init__(self, crawler: Crawler):
        self._prices = Prices(crawler.settings)
        self._crawler = crawler
        self._has_stealth = Proxies.shared(crawler.settings).has("stealth")

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, PageContent):
            return item
        page = self._page(item)
        if item.fetch is not None and item.fetch.began_at is not None:
            seconds = time.monotonic() - item.fetch.began_at
            PAGE_SECONDS.labels(item.fetch.engine).observe(seconds)
        stats = self._crawler.stats
        assert stats is not None
        if page.failure:
            stats.inc_value("pages/failed")
            stats.inc_value(f"pages/failed/{page.failure.code}")
        else:
            stats.inc_value("pages/completed")
        return page

    def _page(self, content: PageContent) -> Page:
        fetch = content.fetch
        assert fetch is not None
        failure = content.error
        if fetch.cause is not None:
            failure = page_error(fetch.cause)
        warnings = [*fetch.warnings, *content.warnings]
        if not fetch.is_unchanged:  # else the content has these
            warnings += self._warnings(fetch)
        queued_ms = None if fetch.queued_s is None else round(fetch.queued_s * 1000)
        if queued_ms is not None:
            warnings.append(QUEUED.format(queued_ms / 1000))
        rendered = fetch.rendered
        values = dict(content.values)
        if rendered and rendered.screenshot and not failure:
            values["screenshot"] = json.dumps(rendered.screenshot).encode()
        if rendered and rendered.actions and not failure:
            values["actions"] = rendered.actions
        draft = values.pop("change_tracking", None)
        if (reason := _untracked_reason(fetch)) and draft is not None:
            warnings.append(reason)
            draft = None
        warning = " ".join(warnings) or None
        return Page(
            values=values,
            warning=warning,
            failure=failure,
            tracked=None
            if failure or draft is None
            else _track_page(fetch, draft, values["markdown"], warning),
            lease=fetch.lease,
            follow=content.follow,
            base=content.base,
            kept=fetch.kept,
            base_page=fetch.base_page,
            blocks=content.blocks,
            text_print=content.text_print,
            search=_search_page(content, fetch) if failure is None else None,
            metadata=PageMetadata(
                source_url=fetch.source_url,
                scrape_id=fetch.scrape_id,
                source_scrape_id=fetch.source_scrape_id,
                url=fetch.source_url if fetch.is_upload else fetch.url,
                status_code=fetch.status,
                content_type=fetch.content_type or None,
                robots_tag=fetch.robots_tag or None,
                sitemap_lastmod=fetch.lease.lastmod if fetch.lease else None,
                proxy_used=fetch.proxy,
                engine=fetch.engine,
                time_zone=rendered.time_zone if rendered else None,
                cache_state=fetch.cache_state,
                cached_at=fetch.cached_at,
                is_unchanged=fetch.is_unchanged,
                credits_used=0 if failure else self._price(content, fetch),
                answered_by=content.answered_by,
                tokens_used=content.tokens_used,
                num_pages=content.num_pages,
                total_pages=content.total_pages,
                token_count=content.token_count,
                chunk=content.chunk,
                redacted=content.redacted,
                losses=content.losses,
                embedded_url=content.embedded_url,
                error=failure.message if failure else _reason(fetch.status),
                queued_ms=queued_ms,
                known=content.known,
                other=content.other,
            ),
        )

    def _price(self, content: PageContent, fetch: Fetch) -> int:
        if fetch.is_unchanged:
            return self._prices.unchanged
        price = self._prices.of(content, fetch.options, fetch.proxy)
        if fetch.source_scrape_id is not None:
            return self._prices.without_fetch(price)
        return price

    def _warnings(self, fetch: Fetch) -> Iterator[str]:
        options = fetch.options
        if fetch.is_upload and options.headers:
            yield "The headers had no effect: the file was not fetched from a site."
        if options.proxy == "stealth" and not self._has_stealth:
            yield (
                "The proxy was basic: the operator has no stealth proxies (SCRAPER_PROXIES)."
            )
        if fetch.engine != HTTP or fetch.cause is not None:
            return
        if options.profile is not None:
            yield "The profile was not used: the page was fetched without a browser."
        if is_elsewhere(options):
            yield (
                "The country had no effect but on the languages: the page was fetched"
                " without a browser, from the service's own address."
            )


def _untracked_reason(fetch: Fetch) -> str | None:
    status = fetch.status or 0
    if status >= 500 or status in PASSING:
        return UNTRACKED.format(status)
    return None


def _track_page(
    fetch: Fetch, draft: bytes, markdown: bytes, warning: str | None
) -> Tracked:
    options = fetch.options.format(ChangeTracking)
    assert options is not None
    return Tracked(
        team_id=fetch.team_id or LOCAL_TEAM,
        url=fetch.source_url,
        options=options,
        draft=draft,
        markdown=markdown,
        is_gone=fetch.status in GONE,
        is_asked_for=fetch.is_asked_for,
        is_kept=not fetch.options.zero_data_retention,
        warning=warning,
    )


def _search_page(content: PageContent, fetch: Fetch) -> SearchPage | None:
    if not content.search or fetch.team_id is None:
        return None
    return SearchPage(fetch.team_id, fetch.url, content.search)


def _reason(status: int | None) -> str | None:
    """Return the phrase of an error status of the site, None for other statuses."""
    if status is None or status < 400:
        return None
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"HTTP status {status}"


class RepeatsPipeline(Component):
    """Removes blocks that a site repeats from Markdown, and names the page of a duplicate.

    Compares with pages that were delivered before. Two processes that deliver at the same
    moment do not see each other's pages.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._repeats = Repeats()

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.lease is None or item.failure:
            return item
        options: Any = getattr(self._crawler.spider, "options", None)
        if not getattr(options, "dedupe_boilerplate", False):
            return item
        await self._look()
        page = self._mark_repeats(item)
        if page.values is not item.values:
            page = await asyncio.to_thread(_recount_tokens, page, options.scrape)
        return page

    async def _look(self) -> None:
        scheduler = LeasedScheduler.of(self._crawler)
        while True:
            last = self._repeats.last
            texts = await scheduler.read(texts_after, scheduler.job_id, last)
            self._repeats.add(texts)
            if len(texts) < READ_ROWS:
                return

    def _mark_repeats(self, page: Page) -> Page:
        repeats, url = self._repeats, page.metadata.url
        host = (url_parts(url).hostname or "")[:MAX_HOST]
        original = repeats.original(page.text_print)
        hashes = tuple(block[0] for block in page.blocks)
        text = DeliveredText(
            host, url, page.text_print, hashes if repeats.learns(host) else ()
        )
        return evolve(
            page,
            values=self._cut(page, repeats.repeated_blocks(host, hashes)),
            metadata=evolve(page.metadata, duplicate_of=original),
            text=None if repeats.is_full else text,
        )

    @staticmethod
    def _cut(page: Page, repeated: set[int]) -> Any:
        """Return the values without the blocks, unless nothing would remain."""
        spans = [(start, end) for block, start, end in page.blocks if block in repeated]
        if not spans or len(spans) == len(page.blocks):
            return page.values
        markdown = without_blocks(page.values["markdown"], spans)
        return {**page.values, "markdown": markdown}


def _recount_tokens(page: Page, options: ScrapeOptions) -> Page:
    """Return ``page`` with the tokens and the part of its Markdown, which has changed."""
    count, part = count_and_cut(json.loads(page.values["markdown"]), options)
    page = evolve(page, metadata=evolve(page.metadata, token_count=count))
    if part is None:
        return page
    values = {**page.values, "part": part.as_json}
    return evolve(page, values=values, metadata=evolve(page.metadata, chunk=part.chunk))


class StorePipeline(Component):
    """Stores each page of a job with its acknowledgement, links and credits.

    Also stores the entries of sitemap files in slices. Sitemaps are dropped afterwards.

    Items pass on after the commit, so a page that was seen is stored. Drops a page whose lease
    was lost, whose job has ended, or which was delivered under another URL.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._changes = Changes(crawler.settings)
        self._sources = KeptSources(crawler.settings)
        self._serialize = load_object(crawler.settings["PAGE_SERIALIZER"])
        self._sites = parse_sites(crawler.settings.getlist("BLOCKED_SITES"))

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, SitemapFile):
            await self._store_sitemap(item)
            raise DropItem("a sitemap is no page", "DEBUG")
        if not isinstance(item, Page):
            return item
        kind = self._kind()
        if item.lease is None:
            _count(item, kind, is_delivered=item.failure is None)
            return item
        scheduler = LeasedScheduler.of(self._crawler)
        page, lease = item, item.lease
        is_base = page.failure is None or page.failure.code == UNCHANGED
        if scheduler.keeps_pages and is_base:
            kept = await self._sources.keep(page.kept, scheduler.team_id)
        else:
            kept = None

        async def renew() -> Outcome:
            nonlocal page
            page = await self._changes.compare(page, scheduler.insist)
            return evolve(self._outcome(page, lease, scheduler), kept=kept)

        outcome = evolve(self._outcome(page, lease, scheduler), kept=kept)
        commit = await scheduler.settle(outcome, renew)
        spider: Any = self._crawler.spider
        if not commit.accepted:
            raise DropItem("the lease was lost, or the job has ended", "DEBUG")
        _count(page, kind, is_delivered=commit.delivered)
        # After the commit: a failed transaction would lose its links.
        for first in range(0, len(item.follow), REMEMBERED_AT_ONCE):
            if first:
                await asyncio.sleep(0)
            links = item.follow[first : first + REMEMBERED_AT_ONCE]
            spider.remember(links, lease.depth + 1)
        if not commit.delivered and item.failure is None:
            raise DropItem("the page was delivered under another URL", "DEBUG")
        return page

    def _kind(self) -> str:
        spider: Any = self._crawler.spider
        return str(spider.name)

    async def _store_sitemap(self, file: SitemapFile) -> None:
        scheduler = LeasedScheduler.of(self._crawler)
        lease = file.lease
        error = page_error(file.cause) if file.cause else file.error
        kept = None
        if scheduler.keeps_pages:
            kept = await self._sources.keep(file.kept, scheduler.team_id)
        whole = Outcome(
            row_id=lease.row_id,
            key=lease.key,
            token=lease.token,
            owner=scheduler.owner,
            page_id="",
            kind=UrlKind.SITEMAP,
            is_done=error is None,
            code=error.code if error else None,
            error=error.message if error else None,
            links=_Links(
                file.nested, lease, lease.depth + 1, self._sites, UrlKind.SITEMAP
            ),
            warnings=file.warnings,
            kept=kept,
        )
        for rows in file.slices:
            links = _Links(tuple(json.loads(rows)), lease, 0, self._sites)
            await scheduler.store(evolve(whole, links=links, goes_on=True, kept=None))
        await scheduler.settle(whole)

    def _outcome(self, page: Page, lease: Lease, scheduler: LeasedScheduler) -> Outcome:
        spider: Any = self._crawler.spider
        failure, body, whole = page.failure, b"{}", None
        if scheduler.keeps_pages and failure is None:
            body = self._serialize(page)
            if page.metadata.chunk is not None:
                whole = self._serialize(page.whole)
        return Outcome(
            row_id=lease.row_id,
            key=lease.key,
            token=lease.token,
            owner=scheduler.owner,
            page_id=page.metadata.scrape_id,
            is_done=failure is not None and failure.code in NO_FAILURES,
            page=None if failure else body,
            whole=whole,
            facts=None if failure else _facts(page, lease),
            credits=page.metadata.credits_used,
            code=failure.code if failure else None,
            error=failure.message if failure else None,
            status=page.metadata.status_code if failure else None,
            text_hashes=page.text_hashes,
            final=_final(page.metadata.url, spider),
            links=_Links(page.follow, lease, lease.depth + 1, self._sites),
            base=page.base,
            text=page.text,
            snapshot=page.tracked.snapshot if page.tracked else None,
        )


def _facts(page: Page, lease: Lease) -> CountedPage:
    verdict, values = page.metadata.known.get("verdict"), page.values
    return CountedPage(
        status=page.metadata.status_code,
        depth=lease.depth,
        verdict=verdict if isinstance(verdict, str) else None,
        data=values.get("json") or values.get("extract"),
        losses={loss["kind"]: loss["count"] for loss in page.metadata.losses},
    )


def _count(page: Page, kind: str, *, is_delivered: bool) -> None:
    failure = page.failure
    if is_delivered:
        PAGES.labels(kind, "done").inc()
        if page.lease is not None and page.metadata.credits_used:
            CREDITS.labels(kind).inc(page.metadata.credits_used)
    elif failure is None or failure.code in NO_FAILURES:
        PAGES.labels(kind, "skipped").inc()
    else:
        PAGES.labels(kind, "failed").inc()
        PAGE_ERRORS.labels(failure.code).inc()


def _final(url: str, spider: Any) -> tuple[int, str] | None:
    key = spider.key_of(url)
    return None if key is None else (key, url)


@frozen
class _Links:
    """The links of a page as rows of the frontier.

    The writer thread creates the rows, since a page may have 100,000 links.
    """

    found: tuple[LinkRowT, ...]
    lease: Lease
    depth: int
    sites: BlockedSites
    kind: UrlKind = UrlKind.PAGE

    def __iter__(self) -> Iterator[Link]:
        depth, kind, found_on = self.depth, self.kind, self.lease.row_id
        sites = self.sites or None
        for url, key, reason, rule, lastmod in self.found:
            if sites is not None and reason is None and sites.covers(url):
                reason, rule = Reason.BLOCKED_SITE.value, SITE_BLOCKED  # noqa: PLW2901
            yield Link(key, url, depth, None, kind, found_on, reason, rule, lastmod)


MAX_WAITING = 2000  # waiting pages before callers have to wait
AT_ONCE = 100  # pages in one transaction
PATIENCE_S = 60.0  # with an unavailable database, as in a restart
NO_ENTRY = "its converter has died, or failed after its response"

logger = logging.getLogger(__name__)


class SearchIndexPipeline(Component):
    """Hands delivered pages to the page index. Does not wait for the index."""

    def __init__(self, crawler: Crawler):
        if not crawler.settings.getbool("SEARCH_INDEX"):
            raise NotConfigured  # with a reason it would be a warning at each start
        self._index = SearchIndex.shared(crawler.settings)
        crawler.signals.connect(self._on_close, signals.spider_closed)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.search is not None:
            await self._index.add(item.search)
        return item

    async def _on_close(self) -> None:
        await self._index.flush()


@define
class _Group:
    """Pages of a team that are written together. ``written`` is set after each write."""

    pages: list[SearchPage] = field(factory=list)
    written: asyncio.Future[None] = field(
        factory=lambda: asyncio.get_running_loop().create_future()
    )


class SearchIndex:
    """Writes pages into the page index in groups.

    Logs pages that could not be written for :data:`PATIENCE_S`, or at the first try during
    :meth:`close_all`. Searches do not find them.
    """

    _instances: ClassVar[Singletons[SearchIndex]] = Singletons()

    def __init__(self, settings: BaseSettings):
        self._settings = settings
        self._retention_s = settings.getfloat("CACHE_RETENTION_S")
        self._waiting: dict[str, _Group] = {}
        self._count = 0
        # By team, as the entry of a page may come late.
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._is_closing = False
        self._has_given_up = False  # a write failed during close_all()

    @classmethod
    def shared(cls, settings: BaseSettings) -> SearchIndex:
        """Return the index of this process for these settings."""
        key = (settings["DATA_DIR"], settings["DATABASE_URL"])
        return cls._instances.get(key, lambda: cls(settings))

    async def add(self, page: SearchPage) -> None:
        """Add a page. Waits only if more than :data:`MAX_WAITING` pages wait."""
        team_id = page.team_id
        if (group := self._waiting.get(team_id)) is None:
            group = self._waiting[team_id] = _Group()
            # Groups are written in their order: readers wait for the last one.
            Database.shared(self._settings).expect((INDEX, team_id), group.written)
        group.pages.append(page)
        self._count += 1
        if team_id not in self._writing:
            self._writing[team_id] = asyncio.ensure_future(self._write(team_id))
        while self._count > MAX_WAITING:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until all added pages are written."""
        if self._writing:
            await asyncio.wait([*self._writing.values()])

    @classmethod
    async def close_all(cls) -> None:
        """Write waiting pages. Does not wait for an unavailable database."""
        for index in cls._instances:
            index._is_closing = True
            await index.flush()
        cls._instances.clear()

    async def _write(self, team_id: str) -> None:
        try:
            while group := self._waiting.pop(team_id, None):
                try:
                    await self._write_group(team_id, group.pages)
                finally:
                    group.written.set_result(None)
        finally:
            del self._writing[team_id]

    async def _write_group(self, team_id: str, pages: list[SearchPage]) -> None:
        for start in range(0, len(pages), AT_ONCE):
            some = pages[start : start + AT_ONCE]
            await self._write_some(team_id, some)
            self._count -= len(some)
            self._room.set()

    async def _write_some(self, team_id: str, pages: list[SearchPage]) -> None:
        index = PageIndex(Database.shared(self._settings))
        new: list[tuple[str, bytes]] = []
        for page in pages:
            if isinstance(page.entry, bytes):
                new.append((page.url, page.entry))
            elif entry := await page.entry:
                new.append((page.url, entry))
            elif entry is None:
                logger.warning("a page was not added to the search index: %s", NO_ENTRY)
        if not new:
            return
        end = time.monotonic() + PATIENCE_S
        try:
            if self._has_given_up:
                raise ServiceUnavailable(NO_ANSWER)
            await insist(
                lambda: index.add(team_id, new, self._retention_s),
                lambda: not self._is_closing and time.monotonic() < end,
            )
        except ServiceUnavailable:
            self._has_given_up = self._is_closing
            logger.warning("pages not added to the search index: %d", len(pages))
        except Exception:
            logger.exception("pages not added to the search index: %d", len(pages))
