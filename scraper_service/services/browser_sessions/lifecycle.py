"""The start and the end of sessions of the browser in this process.

Each session has a task that waits for its end: then it stores the profile, ends the browser
with all that belongs to it, and charges the session.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import uuid
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve, frozen
from scrapy.exceptions import DownloadTimeoutError

from scraper_service.crawling.artefacts import service_secret
from scraper_service.crawling.browser.running_browser import load_modules
from scraper_service.crawling.browser.shared_browser import pages_in_memory
from scraper_service.crawling.page_errors import page_error
from scraper_service.errors import (
    OutOfCredits,
    ProfileInUse,
    QueueFull,
    ServiceUnavailable,
    SessionDestroyed,
    SessionElsewhere,
    SessionLimit,
)
from scraper_service.llm.model import language_model
from scraper_service.options.jobs import PageOptions
from scraper_service.options.limits import under_policy
from scraper_service.services.browser_sessions.running_session import (
    FAILURES,
    MOST_PAGES,
    RunningSession,
)
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.accounts.sessions import (
    SessionBox,
    SessionRecord,
    SessionRefusal,
    read_session,
    save_session,
)
from scraper_service.storage.connections import insist

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.browser.held_page import HeldPage
    from scraper_service.items import PageError
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.services.accounts import Charges, Team
    from scraper_service.services.browser_sessions.caller_code import CallerCode
    from scraper_service.storage.accounts.sessions import SessionStore
    from scraper_service.storage.database import Database


logger = logging.getLogger(__name__)

T = TypeVar("T")

ENDPOINT = "interact"  # of its call in the activity of the team
CLOSE_S = 20.0  # for all sessions to end at shutdown
STORE_S = 8.0  # that a caller waits until an end is stored
SAVE_S = 10.0  # for the cookies and storage of a page
TARGET_S = 10.0  # for the browser to name a page
MINUTE_S = 60
TOKEN_BYTES = 24
EMPTY: dict[str, Any] = {"cookies": [], "origins": []}


class PageFailed(Exception):
    """Raised when the first page of a session could not be loaded."""

    def __init__(self, error: PageError):
        self.error = error
        super().__init__(error.message)


@frozen(kw_only=True)
class SessionTerms:
    """What a session is opened with, beside the options of its page."""

    ttl_s: int
    #: Seconds without a call until it ends.
    idle_s: int
    has_view: bool = True
    origin: str = "api"
    #: The scrape whose page it continues.
    scrape_id: str | None = None


class Lifecycle:
    """Opens sessions, and ends each of them once.

    :attr:`running` has those of this process by id, :attr:`of_scrapes` by team and scrape,
    each until its end is stored.
    """

    def __init__(
        self,
        settings: BaseSettings,
        database: Database,
        store: SessionStore,
        charges: Charges,
        code: CallerCode,
    ):
        self._settings = settings
        self._code = code
        self._database = database
        self._store = store
        self._charges = charges
        self._most_of_team = settings.getint("BROWSER_SESSIONS")
        self._most = max(self._most_of_team, pages_in_memory())
        self._minute = settings.getint("CREDITS_PER_SESSION_MINUTE")
        self._prompted_minute = settings.getint("CREDITS_PER_PROMPT_MINUTE")
        self._has_cdp = settings.getbool("BROWSER_CDP")
        self._model = language_model(settings)
        self.running: dict[str, RunningSession] = {}
        self.of_scrapes: dict[tuple[str, str], RunningSession] = {}
        self._opening = 0
        self._is_closing = False
        self._ends = BackgroundTasks()

    async def close(self) -> None:
        """End all sessions, within :data:`CLOSE_S`. From now on none opens."""
        self._is_closing = True
        for session in self.running.values():
            session.ending.set()
        if ends := (*self._ends,):
            await asyncio.wait(ends, timeout=CLOSE_S)

    async def start(
        self,
        scrape: ScrapeOptions,
        url: str | None,
        team: Team,
        terms: SessionTerms,
    ) -> RunningSession:
        """Open a session with a blank page. ``url`` is the one that follows.

        Raises :exc:`SessionLimit`, :exc:`ProfileInUse`, :exc:`QueueFull`,
        :exc:`~scraper_service.errors.OutOfCredits` and :exc:`ServiceUnavailable`.
        """
        request = under_policy(
            PageOptions(url=url or "", scrape=scrape), team.site_policy
        )
        scrape = request.scrape
        if len(self.running) + self._opening >= self._most:
            raise QueueFull(
                "The service has as many browser sessions as its memory allows."
            )
        session_id = str(uuid.uuid4())
        call = Call(
            session_id,
            team.id,
            team.key_id,
            ENDPOINT,
            2,
            url,
            time.time(),
            terms.origin,
        )
        self._opening += 1
        try:
            async with AsyncExitStack() as stack:
                most = self._price(terms.ttl_s, has_prompts=self._model is not None)
                charge = await stack.enter_async_context(
                    self._charges.call(call, team, most)
                )
                # First, since a caller may leave while the session is being stored.
                stack.push_async_callback(self._forget, session_id, team.id)
                record = await self._store_session(session_id, team, scrape, terms)
                state = await self._state(scrape, team)
                render = await load_modules()
                order = await render.session_order(
                    self._settings, session_id, team.id, scrape, url, state
                )
                has_port = self._has_cdp or bool(self._code.languages)
                if has_port:
                    order.most_pages = MOST_PAGES
                page = await self._open_page(order, has_port=has_port)
                stack.push_async_callback(page.close)  # closing it twice is harmless
                if self._is_closing:
                    raise ServiceUnavailable("The service is stopping.")
                session = RunningSession(
                    record,
                    team,
                    page,
                    scrape,
                    terms.idle_s,
                    charge,
                    state or EMPTY,
                    time.monotonic() + terms.ttl_s,
                    model=self._model,
                    run_code=self._code.run,
                )
                if has_port:
                    with _starting():
                        async with asyncio.timeout(TARGET_S):
                            target = await page.target()
                    session.target_id = target["targetId"]
                    session.context_id = target["browserContextId"]
                if self._has_cdp:
                    session.cdp_token = secrets.token_urlsafe(TOKEN_BYTES)
                if terms.has_view:
                    session.view_token = secrets.token_urlsafe(TOKEN_BYTES)
                    session.input_token = secrets.token_urlsafe(TOKEN_BYTES)
                self.running[session_id] = session
                # From here on the session's own task ends it, and settles its charge.
                rest = stack.pop_all()
                self._ends.spawn(self._live(session, rest))
                return session
        finally:
            self._opening -= 1

    async def _open_page(self, order: Any, *, has_port: bool) -> HeldPage:
        from scraper_service.crawling.browser.held_page import HeldPage  # noqa: PLC0415

        with _starting():
            return await HeldPage.open(self._settings, order, has_port=has_port)

    async def _forget(self, session_id: str, team_id: str) -> None:
        if session_id in self.running:
            return
        forgetting = self._insist(lambda: self._store.forget(session_id, team_id))
        await asyncio.wait([self._ends.spawn(forgetting)], timeout=STORE_S)

    async def _store_session(
        self, session_id: str, team: Team, scrape: ScrapeOptions, terms: SessionTerms
    ) -> SessionRecord:
        """Store a new session. Raises :exc:`SessionLimit` and :exc:`ProfileInUse`."""
        wanted = SessionRecord(
            id=session_id,
            team_id=team.id,
            owner=self._store.owner,
            scrape_id=terms.scrape_id,
            profile=scrape.storage if scrape.saves_storage else None,
            has_view=terms.has_view,
            created_at=0.0,
            last_at=0.0,
            expires_at=0.0,
        )
        found = await self._store.open(wanted, terms.ttl_s, self._most_of_team)
        if found is SessionRefusal.TOO_MANY:
            raise SessionLimit
        if found is SessionRefusal.PROFILE_IN_USE:
            raise ProfileInUse(scrape.storage or "")
        assert isinstance(found, SessionRecord)
        if found.id != session_id:  # another process was faster
            raise SessionElsewhere if found.is_active else SessionDestroyed
        return found

    async def _state(self, scrape: ScrapeOptions, team: Team) -> dict[str, Any] | None:
        if scrape.storage is None:
            return None
        return await self._database.read(
            read_session, team.id, scrape.storage, self._box()
        )

    def _box(self) -> SessionBox:
        return SessionBox(service_secret(self._settings))

    async def begin(
        self, session: RunningSession, work: Coroutine[Any, Any, None], seconds: float
    ) -> None:
        """Load the first page of a session. Raises :exc:`PageFailed`; it is then over."""
        try:
            async with session.call():
                await session.page.run(work, seconds)
        except (*FAILURES, TimeoutError) as error:
            session.has_failed = True
            session.ending.set()
            await asyncio.shield(session.ended)  # its permit is free again
            cause = DownloadTimeoutError() if type(error) is TimeoutError else error
            raise PageFailed(page_error(cause)) from error
        except BaseException:
            session.has_failed = True
            session.ending.set()
            raise

    async def _live(self, session: RunningSession, rest: AsyncExitStack) -> None:
        """Wait for the end of a session, and end it."""
        record, price, ended = session.record, 0, None
        try:
            try:
                await self._until_end(session)
            finally:
                session.ending.set()
                # Neither a late timer nor the work below starts a further minute.
                seconds = min(time.monotonic(), session.ends_at) - session.began_at
                await self._put_away(session)
                price = await self._charge_session(session, rest, seconds)
            # Its caller does not wait for the end of an outage, its slot does.
            loop = asyncio.get_running_loop()
            loop.call_later(STORE_S, _tell_end, session, price)
            ended = await self._insist(lambda: self._store_end(session, price))
        except Exception:
            logger.exception("session %s could not be ended", record.id)
        finally:
            self.running.pop(record.id, None)
            self.of_scrapes.pop((session.team.id, record.scrape_id or ""), None)
            _tell_end(session, price, ended)

    async def _store_end(
        self, session: RunningSession, price: int
    ) -> SessionRecord | None:
        record = session.record
        if not session.has_failed:
            return await self._store.end(record.id, price)
        await self._store.forget(record.id, session.team.id)
        return None

    async def _insist(self, store: Callable[[], Awaitable[T]]) -> T | None:
        """Store an end, however long the database is unavailable.

        At shutdown it is tried once: other processes end what a dead one has left.
        """
        try:
            return await insist(store, lambda: not self._is_closing)
        except ServiceUnavailable as error:
            logger.warning("the end of a session was not stored: %s", error)
            return None

    async def _charge_session(
        self, session: RunningSession, rest: AsyncExitStack, seconds: float
    ) -> int:
        """Charge a session of some seconds. Return its price, 0 if nobody can be charged."""
        price = self._price(seconds, has_prompts=session.has_prompts)
        try:
            async with rest:
                if session.has_failed:
                    return 0
                await session.charge.settle(price)
        except (OutOfCredits, ServiceUnavailable) as error:
            logger.warning("session %s was not charged: %s", session.record.id, error)
        except Exception:
            logger.exception("session %s was not charged", session.record.id)
        else:
            return price
        return 0

    async def _until_end(self, session: RunningSession) -> None:
        ending = asyncio.ensure_future(session.ending.wait())
        gone = (session.page.running.ended, session.page.opened.lost)
        try:
            while (left_s := session.next_end - time.monotonic()) > 0:
                done, _ = await asyncio.wait(
                    (ending, *gone),
                    # The end of a running call brings the end of the session nearer.
                    timeout=min(left_s, session.idle_s),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if done:
                    return
        finally:
            ending.cancel()

    async def _put_away(self, session: RunningSession) -> None:
        """Save the profile of a session, and end its browser."""
        try:
            if session.record.profile is not None and session.page.is_alive:
                await self._save(session)
        except Exception:
            logger.exception("the profile of a session was not kept")
        try:
            await session.page.close()
        except Exception:
            logger.exception("the browser of a session could not be closed")

    async def _save(self, session: RunningSession) -> None:
        assert session.record.profile is not None
        async with asyncio.timeout(SAVE_S):
            after = await session.page.storage()
            await self._database.write(
                save_session,
                session.team.id,
                session.record.profile,
                self._box(),
                session.state,
                after,
            )

    def _price(self, seconds: float, *, has_prompts: bool) -> int:
        """Return the price of a session: of each started minute, at least one."""
        minutes = max(1, -(-int(seconds * 1000) // (MINUTE_S * 1000)))
        return minutes * (self._prompted_minute if has_prompts else self._minute)


@contextmanager
def _starting() -> Iterator[None]:
    """Raise :exc:`ServiceUnavailable` for any error of a browser that starts."""
    try:
        yield
    except Exception as error:
        logger.error("the browser of a session could not be started: %r", error)
        raise ServiceUnavailable(
            "The browser of the session could not be started."
        ) from error


def _tell_end(
    session: RunningSession, price: int, ended: SessionRecord | None = None
) -> None:
    """Tell the callers who wait for the end of a session its figures, once."""
    if session.ended.done():
        return
    now = time.time()
    session.ended.set_result(
        ended or evolve(session.record, last_at=now, ended_at=now, credits=price)
    )
