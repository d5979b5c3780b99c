"""The robots.txt files of sites (RFC 9309): fetched, cached and applied.

A file is fetched through the engine of a crawler, so the download handler, egress rule and
``User-Agent`` are those of pages. The converter pool parses it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve, field, frozen
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from scraper_service.content.decode import encoding_names
from scraper_service.content.page_status import WEB_PAGE
from scraper_service.crawling import Component
from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.crawling.egress import ForbiddenDestination
from scraper_service.crawling.observability import JobRecorder
from scraper_service.crawling.page_errors import (
    HostBusy,
    RobotsRefused,
    RobotsUnreachable,
    page_error,
)
from scraper_service.crawling.page_state import STATE, FetchKind, FetchLimits, PageState
from scraper_service.crawling.politeness.host_limits import pace_key
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.discovery.outgoing_requests import BUSY, backoff_s
from scraper_service.discovery.robots import (
    MAX_BYTES,
    REFUSE_ALL,
    RobotsRules,
    read_robots,
)
from scraper_service.errors import ConverterDied
from scraper_service.options.urls import origin, request_url, robots_url
from scraper_service.shared_objects import Singletons
from scraper_service.storage.frontier.job_counts import RobotsSeen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.discovery.robots import RobotsGroup
    from scraper_service.options.urls import OriginT

MAX_REDIRECTS = 5  # RFC 9309, 2.3.1.2
# Failures that may be over in a moment. A time-out has taken long enough.
NO_RESPONSE = (
    DownloadConnectionRefusedError,
    DownloadFailedError,
    ResponseDataLossError,
)
PASSING = frozenset({408, 425, 429})  # temporary: the file is fetched again soon
PATIENCE_S = 900  # limit of the wait for a busy site, whose pages wait, too
TOO_MANY = 429
PAUSE_S = 0.1  # the shortest pause between two tries at a busy site
READERS = "robots.txt"  # replaces a team id in the converter pool
STALE_S = 30 * 86_400  # rules of an unreachable site (RFC 9309, 2.3.1.4)
ENTRY_BYTES = 2000  # size of a cache entry without its rules
REFERENCE_AGENT = "FirecrawlAgent"  # groups for this name always apply, too

_COMPATIBLE = re.compile(r"compatible;\s*([A-Za-z_-]+)", re.IGNORECASE)
_PRODUCT = re.compile(r"([A-Za-z_-]+)")


@frozen
class RobotsAnswer:
    """The robots.txt of a site, or the reason why it is missing."""

    #: ``ok``, ``absent`` or ``unreadable`` (everything is allowed), or ``unreachable`` (all
    #: is refused).
    state: str
    #: Reason as a sentence, empty for ``ok``.
    detail: str = ""
    rules: RobotsRules = field(factory=RobotsRules)
    #: True if the failure may be temporary.
    passing: bool = False
    #: The failure that all pages of the site have too: its name, or its network.
    failure: Exception | None = None

    def group(self, agents: Sequence[str]) -> RobotsGroup:
        """Return the group for the first matching name of ``agents``, else for ``*``."""
        return REFUSE_ALL if self.state == "unreachable" else self.rules.group(agents)

    def refusal(self, url: str, agents: Sequence[str]) -> str | None:
        """Return the reason why ``url`` is refused, None if it is allowed."""
        verdict = self.group(agents).link_verdict(url)
        if verdict.allowed:
            return None
        if verdict.text is None:
            return self.detail or "robots.txt has more rules than are read."
        return f"robots.txt refuses it in line {verdict.line}: {verdict.text}"


def unreachable(why: str) -> RobotsAnswer:
    """Return the result for a robots.txt that may exist but could not be fetched."""
    detail = f"robots.txt could not be fetched: {why}."
    return RobotsAnswer("unreachable", detail, passing=True)


async def fetch_robots(crawler: Crawler, url: str, timeout_s: float) -> RobotsAnswer:
    """Fetch and parse the robots.txt at ``url``.

    ``timeout_s`` limits all redirects together, without the wait for a busy site. Raises
    the errors of the download, see :func:`reason_of`.
    """
    hops = [url]
    try:
        response = await _download(crawler, url, timeout_s, hops)
    except (CannotResolveHostError, ForbiddenDestination) as error:
        is_own = origin(hops[-1]) == origin(url)
        return evolve(unreachable(reason_of(error)), failure=error if is_own else None)
    except IgnoreRequest:
        # RFC 9309, 2.3.1.2, allows this, and Google does the same. Such sites redirect
        # clients without a cookie in circles and have no robots.txt.
        detail = f"robots.txt redirects more than {MAX_REDIRECTS} times."
        return RobotsAnswer("absent", detail)
    status = response.status
    if status >= 500:
        return unreachable(f"the site answered {status}")
    if status >= 300:
        detail = f"The site answered {status} for its robots.txt."
        return RobotsAnswer("absent", detail, passing=status in PASSING)
    if not response.body:
        return RobotsAnswer("ok")
    rules = await ConverterPool.shared(crawler.settings).run(
        read_robots,
        response.body,
        response.url,
        encoding_names(response.headers.getlist("Content-Encoding")),
        team_id=READERS,
    )
    if rules.error:
        return unreachable(f"it {rules.error}")
    if rules.page:
        # Applications send their shell for any path; a challenge or a log-in page may pass.
        detail = f"{url} is {rules.page}, not a list of rules: everything is allowed."
        return RobotsAnswer("unreadable", detail, passing=rules.page != WEB_PAGE)
    return RobotsAnswer("ok", rules=rules)


def reason_of(error: Exception) -> str:
    """Return the reason of a failed fetch without a full stop. Logs an unknown cause."""
    if isinstance(error, (TimeoutError, MemoryError, ConverterDied)):
        return "it takes too much time or memory to read"
    reason = page_error(error).message.partition(". ")[0].removesuffix(".")
    return reason[:1].lower() + reason[1:]


async def _download(
    crawler: Crawler, url: str, timeout_s: float, hops: list[str]
) -> Response:
    """Return the response with at most 500 KiB of its body.

    Waits for a busy site. A server error, a 429 or a connection without a response is tried
    again, at most ``RETRY_TIMES`` times, after the pause that the site asks for. Returns the
    429 if the pause is too long. ``hops`` receives the URLs of all requests.
    """
    assert crawler.engine is not None
    most_times = crawler.settings.getint("RETRY_TIMES")
    times = 0
    give_up_at = time.monotonic() + PATIENCE_S
    busy_response: Response | None = None
    while True:
        meta = {
            STATE: FetchLimits(
                deadline=time.monotonic() + timeout_s,
                cut_bytes=MAX_BYTES + 1,
                hops=hops,
            ),
            "dont_merge_cookies": True,
            "download_maxsize": 0,  # larger files are cut, not refused
            "download_timeout": timeout_s,
            "redirect_ttl": MAX_REDIRECTS,
        }
        request = Request(
            request_url(url), callback=NO_CALLBACK, dont_filter=True, meta=meta
        )
        try:
            response = await crawler.engine.download_async(request)
            is_final = response.status < 500 and response.status not in BUSY
            if is_final or times >= most_times:
                return response
            if response.status == TOO_MANY:
                busy_response = response
        except HostBusy as busy:
            if busy.opens_at > give_up_at:
                if busy_response is not None:
                    return busy_response
                raise
            await asyncio.sleep(max(PAUSE_S, busy.opens_at - time.monotonic()))
            continue
        except NO_RESPONSE:
            if times >= most_times:
                raise
        times += 1
        await asyncio.sleep(backoff_s(times))


@frozen
class _Kept:
    answer: RobotsAnswer
    #: Time of the fetch.
    read_at: float
    #: Time of the next fetch.
    until: float
    #: The wait after the last of several failures in a row; 0 after a success.
    retry_s: float

    @property
    def size(self) -> int:
        return ENTRY_BYTES + self.answer.rules.size


class RobotsPolicy:
    """The robots.txt cache of a process, of at most ``ROBOTS_CACHE_MB``.

    A fetched file is valid for ``ROBOTS_MAX_AGE_S``, a failure for ``ROBOTS_RETRY_S``. This
    time doubles after each further failure, and the last known rules apply meanwhile.
    ``clock`` returns seconds. Stats of the fetching crawler: ``robots/<state>``.
    """

    _instances: ClassVar[Singletons[RobotsPolicy]] = Singletons()

    def __init__(
        self, settings: BaseSettings, clock: Callable[[], float] = time.monotonic
    ):
        self._clock = clock
        self._timeout_s = settings.getfloat("ROBOTS_TIMEOUT_S")
        self._max_age_s = settings.getfloat("ROBOTS_MAX_AGE_S")
        self._retry_s = settings.getfloat("ROBOTS_RETRY_S")
        self._max_bytes = settings.getint("ROBOTS_CACHE_MB") * 2**20
        self._agents = (product_token(settings), REFERENCE_AGENT)
        self._kept: OrderedDict[OriginT, _Kept] = OrderedDict()
        self._bytes = 0
        self._fetching: dict[OriginT, asyncio.Task[RobotsAnswer | None]] = {}

    @classmethod
    def shared(cls, settings: BaseSettings) -> RobotsPolicy:
        """Return the cache of this process, created by the first call."""
        return cls._instances.get(cls, lambda: cls(settings))

    def agents(self, robots_user_agent: str | None = None) -> tuple[str, ...]:
        """Return the agent names for choosing a group, the best first.

        A caller's name replaces the default names.
        """
        return (robots_user_agent,) if robots_user_agent else self._agents

    def find_cached(self, url: str) -> RobotsAnswer | None:
        """Return the cached robots.txt for the site of ``url``, None without a valid entry."""
        key = origin(url)
        kept = self._kept.get(key)
        if kept is None or kept.until <= self._clock():
            return None
        self._kept.move_to_end(key)
        return kept.answer

    async def rules(self, crawler: Crawler, url: str) -> RobotsAnswer:
        """Return the robots.txt for the site of ``url``, fetched if necessary. Never raises.

        Concurrent callers share one fetch.
        """
        key = origin(url)
        while (answer := self.find_cached(url)) is None:
            task = self._fetching.get(key)
            is_ours = task is None
            if task is None:
                task = asyncio.ensure_future(self._fetch(crawler, key))
                self._fetching[key] = task
            # Shielded: one cancelled caller must not cancel the fetch of the others.
            if (answer := await asyncio.shield(task)) is not None:
                break
            if is_ours:
                return unreachable("the crawl was ending")
        return answer

    async def _fetch(self, crawler: Crawler, key: OriginT) -> RobotsAnswer | None:
        """Fetch and cache the robots.txt. Return None if ``crawler`` ended before."""
        try:
            answer = await fetch_robots(crawler, robots_url(key), self._timeout_s)
        except Exception as error:
            if not _is_open(crawler):
                return None
            answer = unreachable(reason_of(error))
        finally:
            self._fetching.pop(key, None)
        if crawler.stats is not None:
            crawler.stats.inc_value(f"robots/{answer.state}")
        return self._keep(key, answer)

    def _keep(self, key: OriginT, answer: RobotsAnswer) -> RobotsAnswer:
        """Cache ``answer``, or keep a better earlier entry. Return the cached result."""
        now = read_at = self._clock()
        before = self._kept.pop(key, None)
        self._bytes -= before.size if before else 0
        wait_s, retry_s = self._max_age_s, 0.0
        if answer.passing:
            retry_s = 2 * before.retry_s if before else 0
            wait_s = retry_s = min(self._max_age_s, max(self._retry_s, retry_s))
            if answer.state == "unreachable":
                again_at = datetime.fromtimestamp(time.time() + wait_s, UTC)
                text = (
                    f"{answer.detail} It is fetched again after {again_at:%H:%M} UTC."
                )
                answer = evolve(answer, detail=text)
            was_ok = before is not None and before.answer.state == "ok"
            if before and was_ok and now - before.read_at < STALE_S:
                answer = evolve(before.answer, detail=answer.detail)
                read_at = before.read_at
        kept = _Kept(answer, read_at, now + wait_s, retry_s)
        self._kept[key] = kept
        self._bytes += kept.size
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].size
        return answer


def product_token(settings: BaseSettings) -> str:
    """Return the product token for groups of a robots.txt (RFC 9309, 2.2.1)."""
    if token := settings["ROBOTS_AGENT"]:
        return str(token)
    user_agent = str(settings["USER_AGENT"])
    found = _COMPATIBLE.search(user_agent) or _PRODUCT.match(user_agent)
    return found[1] if found else ""


def _is_open(crawler: Crawler) -> bool:
    engine: Any = crawler.engine if crawler.crawling else None
    return engine is not None and engine.running and engine.spider is not None


class RobotsMiddleware(Component):
    """Refuses requests that the robots.txt disallows for ``robots_agents`` of their page.

    Applies before each fetch, also after redirects. The response for
    :attr:`~scraper_service.crawling.page_state.FetchKind.SITEMAP_URLS` is a JSON object: the
    ``sitemaps`` in the robots.txt, and a ``warning`` or null. Nothing else is fetched.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._policy = RobotsPolicy.shared(crawler.settings)
        self._pace = HostPace.shared(crawler.settings)
        self._tally = JobRecorder.tally_of(crawler)
        # The last result with its origin and agents, as the report has it.
        self._noted: tuple[Any, Any, Any] = (None, None, None)

    async def process_request(self, request: Request) -> Response | None:
        state = PageState.find(request)
        if state is None:
            if (hops := FetchLimits.of(request).hops) is not None:
                hops.append(request.url)
            return None
        agents = state.robots_agents
        if state.kind is FetchKind.SITEMAP_URLS:
            answer = await self._answer(request.url, agents)
            warning = answer.detail if answer.state == "unreadable" else None
            found = {"sitemaps": answer.rules.sitemaps, "warning": warning}
            body = json.dumps(found).encode()
            return Response(request.url, body=body, request=request)
        if agents:
            await self.check(request.url, agents)
        return None

    def is_known(self, url: str) -> bool:
        """Return True if :meth:`check` of a URL needs no request."""
        return self._policy.find_cached(url) is not None

    async def check(self, url: str, agents: tuple[str, ...]) -> None:
        """Raise :exc:`RobotsRefused` or :exc:`RobotsUnreachable` for a refused URL.

        Raises :exc:`CannotResolveHostError` if the host name does not resolve, and
        :exc:`ForbiddenDestination` if it leads to a network that is not fetched from.
        """
        answer = await self._answer(url, agents)
        if answer.failure is not None:
            raise answer.failure.with_traceback(None)
        if delay_s := answer.group(agents).crawl_delay_s:
            self._pace.locks.set_crawl_delay(pace_key(url), delay_s)
        if refusal := answer.refusal(url, agents):
            is_read = answer.state == "ok"
            raise (RobotsRefused if is_read else RobotsUnreachable)(refusal)

    async def _answer(self, url: str, agents: tuple[str, ...]) -> RobotsAnswer:
        """Return the robots.txt of a site, and note it for the report of the job."""
        answer = await self._policy.rules(self._crawler, url)
        if self._tally is not None:
            key = origin(url), agents
            noted, noted_key, seen = self._noted
            if answer is not noted or key != noted_key:
                # Without agents, it is only read for its sitemaps.
                group = answer.group(agents) if agents else None
                seen = RobotsSeen(
                    state=answer.state,
                    detail=answer.detail,
                    agent=answer.rules.agent(agents) if agents else None,
                    crawl_delay_s=group.crawl_delay_s if group else None,
                )
                self._noted = answer, key, seen
            self._tally.robots(robots_url(key[0]), seen)
        return answer
