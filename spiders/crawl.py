"""Crawl a site: ``scrapy crawl crawl -a url=https://example.org -O pages.jsonl``."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.crawling.page_state import FetchKind, PageState
from scraper_service.discovery.canonical_urls import (
    Originals,
    SeenLinks,
    crawl_key,
    normalize_url,
    sitemap_key,
)
from scraper_service.discovery.crawl_prompt import options_from_prompt
from scraper_service.discovery.crawler_traps import TrapGuard
from scraper_service.discovery.robots import nofollow_source
from scraper_service.discovery.scope_rules import LinkCheck, Reason, link_rows
from scraper_service.discovery.sitemap import (
    FETCH_TIMEOUT_S,
    GUESS,
    MAX_KEPT_BYTES,
    MAX_KEPT_TOTAL,
    SitemapChoice,
    first_scope,
    sitemap_candidates,
    starts_with_sitemap,
)
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import (
    DUPLICATE,
    FoundLink,
    PageContent,
    PageError,
    SitemapFile,
)
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.options.urls import join_url, url_parts
from scraper_service.spiders.base import JobSpider, options_object
from scraper_service.spiders.sitemaps import (
    GUESSES,
    USUAL_PATH,
    is_guess,
    is_missing,
    is_usual,
    read_sitemap,
    sitemap_request,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from scrapy import Request
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from scraper_service.discovery.scope_rules import CrawlScope
    from scraper_service.items import KeptResponse, Lease, LinkRowT
    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.options.scrape import ScrapeOptions

_PASSING_REASONS = {reason.value for reason in Reason if not reason.is_lasting}
GUESSED_DEPTH = 2  # of guessed sitemaps, one level below the usual one
NOT_GUESSED = PageError(GUESS, "no sitemap")
MAX_SECTIONS = 10_000
WATCHED_PAGES = 10  # pages of a section before their texts are compared


class CrawlSpider(JobSpider):
    """A spider that follows links and sitemaps from a start URL, in its scope.

    The arguments are those of
    :func:`scraper_service.options.spider_arguments.crawl_options`.
    Alternatively, ``options`` is a
    :class:`~scraper_service.options.jobs.CrawlOptions`.
    """

    name = "crawl"
    is_asked_for = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args)
        self.options: CrawlOptions = options_object(kwargs) or _options_of(kwargs)
        self.scope = first_scope(self.options)
        self._check = LinkCheck(self.options, self.scope)
        self.find_links = self.scope.follows_links
        self.find_blocks = self.options.dedupe_boilerplate
        self.guard = TrapGuard(datetime.now(UTC).date())
        self._start_key = self.key_of(self.options.url)
        self._seen = SeenLinks()
        self._originals = Originals()
        self._too_deep: set[int] = set()
        self._sections: Counter[str] = Counter()
        self._kept_bytes = 0  # of sitemaps

    # -- pages -----------------------------------------------------------------------

    def page_request(self, *args: Any, **kwargs: Any) -> Request:
        request = super().page_request(*args, **kwargs)
        PageState.of(request).robots_agents = self._agents()
        return request

    def _agents(self) -> tuple[str, ...]:
        """Return the user agents for robots.txt; empty if robots.txt is ignored."""
        if self.options.ignore_robots_txt or self.options.scrape.lockdown:
            return ()
        return self.robots.agents(self.options.robots_user_agent)

    def source_facts(self, response: Response) -> dict[str, Any]:
        if not self.find_links:
            return {}
        section = _section(response.url)
        if len(self._sections) < MAX_SECTIONS or section in self._sections:
            self._sections[section] += 1
        state = PageState.of(response)
        scope, lease = self.scope, state.job_lease
        if lease.key == self._start_key:
            scope = scope.rebase(response.url)
        state.link_check = check = self._check_of(scope)
        return {
            "find_words": self._sections[section] > WATCHED_PAGES,
            "check_links": check,
            "link_depth": lease.depth + 1,
        }

    def _check_of(self, scope: CrawlScope) -> LinkCheck:
        """Return the check of links by ``scope``, mostly that of the last page."""
        if self._check.scope.base != scope.base:
            self._check = LinkCheck(self.options, scope)
        return self._check

    async def parse(self, response: Response) -> AsyncIterator[PageContent | Request]:
        """Yield the content of a page with its new links, or the next request for it."""
        async for item in super().parse(response):
            if isinstance(item, PageContent):
                yield await self._apply_rules(item, response)
            else:
                yield item

    async def _apply_rules(
        self, content: PageContent, response: Response
    ) -> PageContent:
        """Apply the rules of the crawl to a fetched page, then to its links."""
        state = PageState.of(response)
        lease = state.job_lease
        facts: dict[str, Any] = {}
        if lease.key == self._start_key:
            moved = self.scope.rebase(response.url)
            if moved is not self.scope:
                self.scope, facts["base"] = moved, response.url
            if denial := self.scope.denial(response.url):
                text = f"The page was visited, but is left out: {denial.rule}."
                facts["error"] = PageError("CRAWL_DENIAL", text)
        elif content.error is None and (foreign := self.scope.foreign(response.url)):
            text = f"The page redirects to another site: {foreign.rule}."
            return evolve(content, error=PageError("EXTERNAL_LINK", text))
        if content.error is None and "error" not in facts:
            self.guard.record_page(state.source_url, content.fingerprint)
            if original := self._original(content, response.url):
                text = f"duplicate of {original}"
                facts["error"] = PageError(DUPLICATE, text)
        links: list[LinkRowT] = []
        nofollow = self._nofollow(content, response)
        for number, part in enumerate(content.links):
            if number:
                await asyncio.sleep(0)
            rows = link_rows(part)
            assert state.link_check is not None
            if state.link_check.scope.base != self.scope.base:
                # The start page has moved during the conversion.
                check = self._check_of(self.scope)
                urls = [row[0] for row in rows]
                rows = list(check.rows(urls, lease.depth + 1, response.url))
            if nofollow is not None:
                rows = [_not_followed(row, nofollow) for row in rows]
            links += self._new(rows, lease.depth + 1)
        return evolve(content, links=(), follow=tuple(links), **facts)

    def _nofollow(self, content: PageContent, response: Response) -> str | None:
        """Return what marks a page as nofollow; None if its links are followed."""
        if not self.options.obey_nofollow:
            return None
        headers = response.headers.getlist("X-Robots-Tag")
        lines = [
            line for each in headers for line in each.decode("latin-1").split("\n")
        ]
        agents = self.robots.agents(self.options.robots_user_agent)
        return nofollow_source(lines, {**content.other, **content.known}, agents)

    def _original(self, content: PageContent, url: str) -> str | None:
        """Return the canonical URL of a page if an earlier page had it and the same text.

        The canonical URL alone proves no duplicate. Pages of a list often name the
        first page, and some sites name their home page everywhere.
        """
        if not self.options.deduplicate_similar_urls:
            return None
        words = content.fingerprint
        if content.canonical is None or not words:
            return None
        canonical = normalize_url(content.canonical)
        key, own = self.key_of(canonical), self.key_of(url)
        return canonical if self._originals.has(key, own, words) else None

    def _new(self, rows: Iterable[LinkRowT], depth: int) -> Iterator[LinkRowT]:
        """Yield the links that are new to the crawl; refused links have a reason."""
        is_too_deep = self._is_too_deep(depth)
        for row in self._seen.without(rows):
            url, key, reason, _, _ = row
            if is_too_deep:
                if key in self._too_deep:
                    continue
                self._too_deep.add(key)
            if reason is None and (refusal := self._refusal(url)):
                yield url, key, *refusal, None
            else:
                yield row

    def _is_too_deep(self, depth: int) -> bool:
        deepest = self.options.max_discovery_depth
        return deepest is not None and depth > deepest

    def _refusal(self, url: str) -> tuple[str, str] | None:
        """Return why a URL in the scope is not followed, or None."""
        if refusal := self.guard.refusal(url):
            return refusal.reason.value, refusal.rule
        if not self.options.ignore_robots_txt and (
            rules := self.robots.find_cached(url)
        ):
            agents = self.robots.agents(self.options.robots_user_agent)
            if rule := rules.refusal(url, agents):
                return Reason.ROBOTS.value, rule
        return None

    def remember(self, links: Sequence[LinkRowT], depth: int) -> None:
        """Record that the frontier has links, so that the crawl skips them from now on.

        A link is checked again if another page may lead to another decision. ``depth`` is
        that of the links, which may be too deep since a change of the options.
        """
        if not self._is_too_deep(depth):
            self._seen.update(
                [row[1] for row in links if row[2] not in _PASSING_REASONS]
            )

    def key_of(self, url: str) -> int:
        """Return the key of a URL in this crawl; duplicates have the same key."""
        return crawl_key(self.options, url)

    def move_to(self, base: str) -> None:
        """Move the scope to ``base``, the URL that the start page redirected to."""
        self.scope = self.scope.rebase(base)

    # -- sitemaps --------------------------------------------------------------------

    def sitemap_request(
        self,
        url: str,
        options: ScrapeOptions,
        page_id: str,
        deadline: float,
        lease: Lease,
        team_id: str | None = None,
    ) -> Request:
        """Return the request for a sitemap file; level 0 finds the sitemap URLs."""
        return sitemap_request(
            url,
            options,
            FETCH_TIMEOUT_S,
            FetchKind.SITEMAP_URLS if lease.depth == 0 else FetchKind.SITEMAP,
            callback=self.parse_places if lease.depth == 0 else self.parse_sitemap,
            errback=self.sitemap_failed,
            scrape_id=page_id,
            lease=lease,
            team_id=team_id,
            robots_agents=self._agents() if lease.depth == 0 else (),
        )

    def parse_places(self, response: Response) -> Iterator[SitemapFile]:
        """Yield the URLs where sitemaps may be, including those of robots.txt."""
        robots = json.loads(response.body)
        declared, warning = robots["sitemaps"], robots["warning"]
        from_sitemap = starts_with_sitemap(self.options)
        start = self.options.url if from_sitemap else self.scope.base.href
        candidates = sitemap_candidates(start, declared)
        yield SitemapFile(
            lease=PageState.of(response).job_lease,
            nested=self._files(candidates),
            warnings=(warning,) if warning else (),
        )

    async def parse_sitemap(self, response: Response) -> AsyncIterator[SitemapFile]:
        """Yield the rows of a sitemap file, checked by the rules of the crawl."""
        state = PageState.of(response)
        url, lease = state.source_url, state.job_lease
        choice = SitemapChoice(self.options, self.scope.base.href)
        found = await read_sitemap(self, response, lease.depth, choice)
        nested, warnings, error = found.nested, found.warnings, found.error
        if is_missing(response, found):
            if self._is_guess(url, lease):
                GUESSES.note_missing(url)
                yield SitemapFile(lease=lease, error=NOT_GUESSED)
                return
            if lease.depth == 1 and self._may_guess(url):
                nested = GUESSES.of_host(url)
        if found.page is not None:
            assert error is not None
            warnings = (*warnings, f"{url}: {error.message}")
        yield SitemapFile(
            lease=lease,
            slices=found.rows,
            nested=self._files(nested),
            warnings=warnings,
            error=error,
            kept=None if found.error else self._kept_sitemap(response),
        )

    def _is_guess(self, url: str, lease: Lease) -> bool:
        """Return True for a sitemap that no file names, see :meth:`_may_guess`."""
        usual = join_url(url, USUAL_PATH)
        is_own = lease.depth == GUESSED_DEPTH and is_guess(url)
        return is_own and self._may_guess(usual)

    def _may_guess(self, url: str) -> bool:
        """Return True if other sitemaps may be guessed because that at ``url`` is missing.

        ``url`` must be the usual one of the host of the crawl, whose robots.txt names none.
        """
        if not is_usual(url) or url_parts(url).netloc != self.scope.base.host:
            return False
        # Unknown are the rules of a host whose robots.txt another process has read.
        known = self.robots.find_cached(url)
        return known is None or (
            known.state != "unreachable" and not known.rules.sitemaps
        )

    def _kept_sitemap(self, response: Response) -> KeptResponse | None:
        """Return the response of a sitemap for the job, up to a size limit."""
        size = len(response.body)
        if not self._is_kept(PageState.of(response)) or size > MAX_KEPT_BYTES:
            return None
        if (self._kept_bytes + size) > MAX_KEPT_TOTAL:
            return None
        self._kept_bytes += size
        return self.kept_response(response, self.page_source(response), b"")

    def _files(self, urls: Iterable[str]) -> tuple[FoundLink, ...]:
        """Return the sitemap files of the crawl's hosts as links."""
        inside = (url for url in urls if not self.scope.foreign(url))
        return tuple(FoundLink(url, sitemap_key(url)) for url in inside)

    def sitemap_failed(self, failure: Failure) -> Iterator[SitemapFile]:
        """Yield a sitemap file with the cause of its failure; the crawl goes on."""
        request = failure.request  # type: ignore[attr-defined]
        state, cause = PageState.of(request), failure.value
        lease = state.job_lease
        if isinstance(cause, ServiceUnavailable):
            raise cause
        if self._is_guess(state.source_url, lease):
            yield SitemapFile(lease=lease, error=NOT_GUESSED)
        else:
            yield SitemapFile(lease=lease, cause=cause)


def _options_of(arguments: dict[str, Any]) -> CrawlOptions:
    """Return the options of a crawl; the prompt fills options without an argument."""
    options = crawl_options(arguments)
    found = (
        options_from_prompt(options.prompt, options.url).values
        if options.prompt
        else {}
    )
    filled: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in found.items()
        if name not in arguments
    }
    return evolve(options, **filled)


def _not_followed(row: LinkRowT, why: str) -> LinkRowT:
    """Return the row of a link that would be followed, refused for ``nofollow``."""
    return row if row[2] else (*row[:2], Reason.NOFOLLOW.value, why, row[4])


def _section(url: str) -> str:
    parts = url_parts(url)
    return f"{parts.netloc}/{parts.path[1:].partition('/')[0]}"
