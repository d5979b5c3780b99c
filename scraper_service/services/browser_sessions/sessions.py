"""The sessions of the browser of this process: opened, used, listed and ended.

Each session ends: by its caller, after its time to live or a time without a call, when its
browser dies, and at the end of the service. Sessions of a process that was killed end with
its heartbeats in the database.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import uuid
from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.crawling.browser.running_browser import remove_orphans
from scraper_service.errors import (
    OptionUnavailable,
    ServiceUnavailable,
    SessionDestroyed,
    SessionElsewhere,
    SessionNotFound,
    Unauthorized,
)
from scraper_service.options.catalogue import USUAL_PAGE
from scraper_service.options.jobs import PageOptions
from scraper_service.options.limits import missing_model
from scraper_service.options.urls import request_url
from scraper_service.services.browser_sessions.caller_code import CallerCode
from scraper_service.services.browser_sessions.lifecycle import Lifecycle, SessionTerms
from scraper_service.services.browser_sessions.session_requests import FAILED
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.accounts.sessions import (
    SessionRecord,
    SessionStore,
)
from scraper_service.storage.accounts.teams import ended_keys

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.middlewares import Engines
    from scraper_service.items import Page, TakenPage
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.services.accounts import Charges, Team
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
        StepResult,
    )
    from scraper_service.services.browser_sessions.session_requests import (
        SessionOptions,
        Step,
    )
    from scraper_service.services.capabilities import Availability
    from scraper_service.services.resident_crawler import ResidentCrawler
    from scraper_service.services.scraping import Scraping
    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)

LOOK_S = 2.0  # between two looks for ends that other processes want
LOST_S = 15.0  # between two looks for sessions of dead processes
FIRST_LOAD_S = 60.0  # for the page that a session begins with
REPLAY_TTL_S, REPLAY_IDLE_S = 600, 300  # of the session of a scrape
MOST_REPLAY_S = 300.0  # to open the page of a scrape again
CONVERT_S = 30.0  # for the conversion of a page after a step
ELSEWHERE_S = 15.0  # for another process to end a session
OFF = "the operator has switched sessions of the browser off (SCRAPER_BROWSER_SESSIONS)"


class BrowserSessions:
    """The sessions of all teams in this process.

    A team has at most ``BROWSER_SESSIONS`` active ones in all processes. The memory of the
    machine limits their number in this one. :meth:`open` starts the work in the
    background, :meth:`close` ends all sessions.
    """

    def __init__(
        self,
        settings: BaseSettings,
        database: Database,
        owner: str,
        charges: Charges,
        availability: Availability,
        engines: Engines,
        resident: ResidentCrawler,
        scraping: Scraping,
    ):
        self._store = SessionStore(database, owner)
        self._database = database
        self._disk = charges.disk
        self._availability = availability
        self._engines = engines
        self._resident = resident
        self._scraping = scraping
        self._most_of_team = settings.getint("BROWSER_SESSIONS")
        self._no_model = missing_model(settings)
        self._code = CallerCode(settings)
        self._life = Lifecycle(settings, database, self._store, charges, self._code)
        self._replaying: dict[tuple[str, str], asyncio.Task[RunningSession]] = {}
        self._tasks = BackgroundTasks()
        self._steps = BackgroundTasks()

    # -- life ----------------------------------------------------------------------------

    def open(self) -> None:
        """Remove browsers of killed processes, and begin to look for ends."""
        if self._most_of_team:
            self._tasks.spawn(asyncio.to_thread(remove_orphans))
            self._tasks.spawn(self._look())

    async def close(self) -> None:
        """End all sessions."""
        self._tasks.cancel()
        await self._life.close()

    async def _look(self) -> None:
        """End sessions for other processes, and those that no process ends."""
        lost_at = 0.0
        while True:
            try:
                if time.monotonic() >= lost_at:
                    if ended := await self._store.end_lost():
                        logger.warning("%d sessions ended that no process has", ended)
                    lost_at = time.monotonic() + LOST_S
                if self._life.running:
                    for session_id in await self._store.requested_ends():
                        if (session := self._life.running.get(session_id)) is not None:
                            session.ending.set()
                    await self._end_with_keys()
            except ServiceUnavailable:
                pass  # logged where it was raised; the next turn tries again
            except Exception:
                logger.exception("sessions of the browser could not be looked after")
            await asyncio.sleep(LOOK_S)

    async def _end_with_keys(self) -> None:
        """End the sessions whose key was revoked or has expired.

        The tokens of their URLs would go on without it.
        """
        running = self._life.running.values()
        used = {each.team.key_id for each in running if each.team.key_id is not None}
        if ended := await self._database.read(ended_keys, used):
            for session in self._life.running.values():
                if session.team.key_id in ended:
                    session.ending.set()

    # -- calls ---------------------------------------------------------------------------

    async def start(self, options: SessionOptions, team: Team) -> SessionRecord:
        """Open a session. Raises its refusals, and :exc:`PageFailed`.

        Also raises :exc:`~scraper_service.errors.DiskQuotaExceeded`, as each step does: the
        files of steps count like those of scrapes.
        """
        scrape = evolve(
            USUAL_PAGE,
            block_ads=options.block_ads,
            location=options.location,
            profile=options.profile,
        )
        self._check_open()
        await self._disk.require(team)
        terms = SessionTerms(
            ttl_s=options.ttl_s,
            idle_s=options.idle_s,
            has_view=options.has_view,
            origin=options.origin,
        )
        session = await self._life.start(scrape, options.url, team, terms)
        if options.url is not None:
            work = session.page.go(options.url, FIRST_LOAD_S)
            await self._life.begin(session, work, FIRST_LOAD_S)
        return session.record

    async def step(self, session_id: str, step: Step, team: Team) -> StepResult:
        """Do a step in a session. Raises :exc:`SessionNotFound` and its like."""
        await self._check_step(step)
        await self._disk.require(team)
        session = self._life.running.get(session_id)
        if session is None or session.team.id != team.id:
            await self._refuse(session_id, team)
        assert session is not None
        return await self._do(session, step)

    async def step_after(self, scrape_id: str, step: Step, team: Team) -> StepResult:
        """Do a step in the page of a scrape. The first one opens the page again.

        Raises what :meth:`step` and :meth:`start` raise, :exc:`JobNotFound` and
        :exc:`ReplayUnavailable`.
        """
        await self._check_step(step)
        await self._disk.require(team)
        key = (team.id, scrape_id)
        session = self._life.of_scrapes.get(key)
        if session is None:
            if (opening := self._replaying.get(key)) is None:
                # Calls at the same time wait for the same session.
                opening = self._steps.spawn(self._replay(scrape_id, team, step.origin))
                self._replaying[key] = opening
                opening.add_done_callback(lambda _: self._replaying.pop(key, None))
            session = await asyncio.shield(opening)
        return await self._do(session, step)

    async def end_after(self, scrape_id: str, team: Team) -> SessionRecord:
        """End the session of a scrape, see :meth:`end`."""
        record = await self._store.find(team.id, scrape_id=scrape_id)
        if record is None:
            raise SessionNotFound
        return await self.end(record.id, team)

    async def _replay(self, scrape_id: str, team: Team, origin: str) -> RunningSession:
        """Open the page of a scrape in a new session, with its waits and actions."""
        record = await self._store.find(team.id, scrape_id=scrape_id)
        if record is not None:
            raise SessionElsewhere if record.is_active else SessionDestroyed
        options = await self._scraping.replay(scrape_id, team)
        terms = SessionTerms(
            ttl_s=REPLAY_TTL_S,
            idle_s=REPLAY_IDLE_S,
            origin=origin,
            scrape_id=scrape_id,
        )
        session = await self._life.start(options.scrape, options.url, team, terms)
        seconds = min(options.scrape.deadline_ms / 1000, MOST_REPLAY_S)
        work = session.page.replay(
            request_url(options.url), options.scrape, FIRST_LOAD_S
        )
        await self._life.begin(session, work, seconds)
        self._life.of_scrapes[team.id, scrape_id] = session
        return session

    def by_token(self, session_id: str, kind: str, token: str) -> RunningSession:
        """Return a session of this process for the token of one of its URLs.

        ``kind`` is one of :meth:`tokens`. Raises :exc:`Unauthorized`, also for an unknown
        session.
        """
        known = self.tokens(session_id).get(kind, "")
        if not known or not hmac.compare_digest(known.encode(), token.encode()):
            raise Unauthorized("Unauthorized: Invalid token")
        return self._life.running[session_id]

    def tokens(self, session_id: str) -> dict[str, str]:
        """Return the secrets of the URLs of a session that are offered.

        ``cdp`` is that of ``cdpUrl``, ``view`` that of ``liveViewUrl``, ``input`` that of
        ``interactiveLiveViewUrl``. A session that has ended, or that another process has,
        offers none.
        """
        session = self._life.running.get(session_id)
        if session is None or session.ending.is_set():
            return {}
        found = {
            "cdp": session.cdp_token,
            "view": session.view_token,
            "input": session.input_token,
        }
        return {kind: token for kind, token in found.items() if token}

    async def list_sessions(
        self, team: Team, is_active: bool | None
    ) -> list[SessionRecord]:
        """Return the sessions of a team, the newest first."""
        return await self._store.all(team.id, is_active=is_active)

    async def end(self, session_id: str, team: Team) -> SessionRecord:
        """End a session and return its figures, also those of one that has ended.

        Raises :exc:`SessionNotFound`.
        """
        session = self._life.running.get(session_id)
        if session is not None and session.team.id == team.id:
            session.ending.set()
            return await asyncio.shield(session.ended)
        record = await self._store.find(team.id, session_id=session_id)
        if record is None:
            raise SessionNotFound
        if record.is_active:
            await self._store.ask_end(session_id)
            record = await self._wait_elsewhere(session_id, team)
        return record

    async def _wait_elsewhere(self, session_id: str, team: Team) -> SessionRecord:
        deadline = time.monotonic() + ELSEWHERE_S
        while time.monotonic() < deadline:
            record = await self._store.find(team.id, session_id=session_id)
            if record is None:
                raise SessionNotFound
            if not record.is_active:
                return record
            await asyncio.sleep(LOOK_S / 4)
        raise SessionElsewhere

    async def _refuse(self, session_id: str, team: Team) -> None:
        """Raise why a session that is not in this process takes no step."""
        record = await self._store.find(team.id, session_id=session_id)
        if record is None:
            raise SessionNotFound
        raise SessionElsewhere if record.is_active else SessionDestroyed

    def _check_open(self) -> None:
        self._availability.check_open()
        if (missing := self._engines.missing) is not None:
            raise OptionUnavailable(
                "url",
                f"A session needs a browser on the machine of the service: {missing}.",
                "BROWSER_REQUIRED",
            )
        if not self._most_of_team:
            raise OptionUnavailable("url", f"No session: {OFF}.", "BROWSER_REQUIRED")

    async def _check_step(self, step: Step) -> None:
        self._check_open()
        if step.take is not None:
            self._availability.require(step.take)
        if step.prompt is not None and self._no_model is not None:
            raise OptionUnavailable(
                "prompt",
                f"prompt is not available: {self._no_model}. Use actions instead.",
                "LANGUAGE_MODEL_REQUIRED",
            )
        if step.is_program and (why := await self._code.why_off(step.language)):
            raise OptionUnavailable(
                "code",
                f"The service runs no code in {step.language}: {why}. Use actions, such"
                " as executeJavascript, lines of agent-browser with the language bash, or"
                " cdpUrl.",
                "CODE_EXECUTION_DISABLED",
            )

    # -- its steps -----------------------------------------------------------------------

    async def _do(self, session: RunningSession, step: Step) -> StepResult:
        if session.ending.is_set():
            raise SessionDestroyed
        # A client that disconnects does not end its step: the page would be in the middle.
        work = self._steps.spawn(self._whole_step(session, step))
        return await asyncio.shield(work)

    async def _whole_step(self, session: RunningSession, step: Step) -> StepResult:
        result = await session.step(step)
        result.session_id = session.record.id
        if not (result.is_gone or result.closes):
            result.url = session.page.url
        if result.taken is not None and step.take is not None:
            page = await self._convert_page(session, step.take, result.taken)
            if page.failure is None:
                result.page = page
            elif result.error is None:
                result.error, result.exit_code = page.failure.message, FAILED
        if not session.ending.is_set():
            await self._store.note_call(session.record.id)
        return result

    async def _convert_page(
        self, session: RunningSession, options: ScrapeOptions, taken: TakenPage
    ) -> Page:
        team = session.team
        page = await self._resident.fetch(
            PageOptions(url=taken.url, scrape=options),
            team.id,
            str(uuid.uuid4()),
            time.monotonic() + CONVERT_S,
            account=team.key_id or team.id,
            taken=taken,
        )
        # The minutes of the session pay for it.
        return evolve(page, metadata=evolve(page.metadata, credits_used=0))
