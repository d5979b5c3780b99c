"""The parts of a process that work without requests.

Jobs, checks of monitors, webhooks, mail and channels: each process that has them
shares this work with all others of its database.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import Settings

    from scraper_service.crawling.observability import LoopLag
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.model_jobs.running_job import Work
    from scraper_service.services.monitoring.check_run import MonitorScheduler
    from scraper_service.services.monitoring.notifications import ChannelSender, Mailer
    from scraper_service.services.observability.health import Health
    from scraper_service.storage.jobs.runs import Taken

logger = logging.getLogger(__name__)


class Background:
    """Makes, starts and stops these parts.

    The constructor raises :exc:`ValueError` for invalid settings, and
    :exc:`~scraper_service.errors.DatabaseUnusable`.
    """

    def __init__(self, settings: Settings):
        from scrapy.crawler import AsyncCrawlerProcess

        from scraper_service.api.events import event_body
        from scraper_service.api.responses import with_base
        from scraper_service.crawling.artefacts import object_store
        from scraper_service.crawling.converter_pool.page_conversion import (
            ConverterPool,
        )
        from scraper_service.search_engines.web_search import Searches
        from scraper_service.services.map_search import MapCrawler
        from scraper_service.services.observability.tracing import shared_traces
        from scraper_service.services.webhooks import Webhooks
        from scraper_service.storage.database import Database
        from scraper_service.storage.secrets import forget_secrets

        # First: it installs the reactor that other modules import.
        settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")
        self.process = AsyncCrawlerProcess(settings)
        _configure_logs(settings)
        self.traces = shared_traces()
        self.settings = settings
        # It reads its credentials here, or is None.
        self.stored = object_store(settings)
        forget_secrets(of_stores=True)
        self.data_dir = Path(settings["DATA_DIR"])
        self.database = Database.shared(settings)
        self.pool = ConverterPool.shared(settings)
        #: Stored pages have a placeholder, which this URL replaces in webhook deliveries.
        self.own_url: str = settings["PUBLIC_URL"].rstrip("/")
        self.webhooks = Webhooks(
            settings,
            self.database,
            lambda event, hook: with_base(event_body(event, hook), self.own_url),
        )
        self.searches = Searches(settings)
        self.runner = self._make_runner()
        self.maps = MapCrawler(self.process, self.database)
        #: The work by kind of job, of all that no spider runs.
        self.kinds = self._work()
        self.scheduler = self._monitoring()
        self.mailer, self.channels = self._messengers()
        #: True from the signal to end on.
        self.is_leaving = False
        self.lag, self.health = self._health()

    def check_secret(self, refusal: str) -> None:
        """Raise :exc:`ValueError` if services of the database have another secret."""
        from scraper_service.storage.accounts.teams import is_known_secret
        from scraper_service.storage.secrets import key_secret

        secret = key_secret(self.data_dir, self.settings["KEY_SECRET"])
        with self.database.engine.begin() as connection:
            if not is_known_secret(connection, secret):
                raise ValueError(refusal)

    def _make_runner(self) -> JobRunner:
        from scrapy.utils.misc import load_object

        make_runner = load_object(self.settings["JOB_RUNNER"])
        runner: JobRunner = make_runner(self.process, self.database)
        return runner

    def _work(self) -> dict[str, Work]:
        from scraper_service.llm.model import language_model
        from scraper_service.services.map_search import Sources
        from scraper_service.services.model_jobs.agent import Agent, Research
        from scraper_service.services.model_jobs.agent_run import RunTools
        from scraper_service.services.model_jobs.agent_writer import AgentWriter
        from scraper_service.services.model_jobs.extraction import Extract
        from scraper_service.services.model_jobs.llms_txt import LlmsText
        from scraper_service.storage.accounts.credits import Prices

        settings, prices = self.settings, Prices(self.settings)
        sources = Sources(self.maps, self.searches)
        writer = AgentWriter(language_model(settings), settings)
        most_s = settings.getint("OPERATION_TIMEOUT_S")
        tools = RunTools(sources, prices, writer, most_s)
        return {
            "extract": Extract(sources, prices, settings),
            "agent": Agent(tools),
            "llmstxt": LlmsText(sources, prices, settings),
            "deep_research": Research(tools),
        }

    def _monitoring(self) -> MonitorScheduler:
        from scraper_service.llm.model import language_model
        from scraper_service.options.jobs import MONITOR_CHECK
        from scraper_service.services.monitoring.check_run import (
            MonitorCheck,
            MonitorScheduler,
        )
        from scraper_service.storage.accounts.credits import Prices

        settings = self.settings
        self.kinds[MONITOR_CHECK] = MonitorCheck(
            self.database,
            self.runner,
            self.searches,
            Prices(settings),
            language_model(settings),
            settings,
        )
        usual_mb = settings.getint("TEAM_DISK_MB")
        return MonitorScheduler(self.database, self.runner.wake, usual_disk_mb=usual_mb)

    def _messengers(self) -> tuple[Mailer, ChannelSender]:
        from scraper_service.services.monitoring.notifications import (
            Channels,
            ChannelSender,
            Mailer,
            MailServer,
        )

        settings = self.settings
        mail = settings["SMTP_URL"]
        server = MailServer.parse(mail) if mail else None
        channels = Channels.parse(
            settings.getlist("NOTIFICATION_CHANNELS"), settings.getlist("EGRESS_ALLOW")
        )
        return Mailer(self.database, server), ChannelSender(self.database, channels)

    def _health(self) -> tuple[LoopLag, Health]:
        from scraper_service.crawling.observability import LoopLag
        from scraper_service.services.observability.health import Health, service_checks

        lag = LoopLag()
        found = service_checks(
            self.settings, self.database, self.pool, lag, self.stored
        )
        return lag, Health(found, lambda: self.is_leaving)

    async def start(self) -> None:
        """Start the parts that others need, and begin to run jobs."""
        await asyncio.gather(self.pool.warm_up(), self.maps.start(), self.runner.open())

    def open(self) -> None:
        """Begin to run jobs and checks, and to send mail and messages."""
        self.runner.run_kinds(
            {name: self._coroutine(work) for name, work in self.kinds.items()}
        )
        if self.settings.getint("MONITOR_CONCURRENCY"):
            self.scheduler.open()
        self.mailer.open()
        self.channels.open()

    def _coroutine(self, work: Work) -> Callable[[Taken], Awaitable[None]]:
        from scraper_service.services.model_jobs.running_job import run_job

        wake = self.runner.wake
        return partial(run_job, work, self.database, self.pool, wake)

    def facts(self) -> dict[str, Any]:
        """Return the members of ``/health`` of a ready process that each one has."""
        return {
            "success": True,
            "status": "ok",
            "loopLagP99Ms": self.lag.p99_ms(),
            "runningJobs": self.runner.running,
            "runningOperations": self.runner.running_operations,
            "workers": dict(self.runner.workers),
            "warnings": self.runner.warnings,
        }

    def first_closers(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield what begins no further work, in order."""
        yield self.scheduler.close
        yield self.mailer.close
        yield self.channels.close
        yield self.runner.close

    async def finish_crawls(
        self, kept: Iterable[Crawler | None], answered: Awaitable[None]
    ) -> bool:
        """Let running work end, for at most ``SHUTDOWN_TIMEOUT_S``. Return True if it has.

        Jobs stop after their running pages. Calls end before the crawlers ``kept``, which fetch
        single pages: a search may still need them. ``answered`` ends with the last call.
        """
        from scraper_service.services.job_runner import stop_crawler, stop_crawlers

        timeout = self.settings.getfloat("SHUTDOWN_TIMEOUT_S")
        stay = (self.maps.crawler, *kept)
        jobs = [each for each in self.process.crawlers if each not in stay]
        try:
            async with asyncio.timeout(timeout):
                ending = (answered, *(stop_crawler(each) for each in jobs))
                await asyncio.wait([asyncio.ensure_future(each) for each in ending])
                await stop_crawlers(self.process)
        except TimeoutError:
            logger.warning("some work was still running after %s s", timeout)
            return False
        return True

    def last_closers(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield what closes the rest after the last response, in order."""
        from scraper_service.crawling.pipelines.pages import SearchIndex

        yield SearchIndex.close_all
        yield self.runner.leave
        yield self.database.drain
        if self.traces is not None:
            yield self.traces.stop

    def release(self) -> None:
        """Close converters and database at once."""
        self.pool.close()
        self.database.close()


def _configure_logs(settings: Settings) -> None:
    """Configure the log, with or without access log and without Scrapy's messages."""
    from scraper_service.crawling.observability import configure_logs
    from scraper_service.settings import unknown_settings

    configure_logs(settings)
    if not settings.getbool("ACCESS_LOG"):
        logging.getLogger("scraper_service.access").disabled = True
    if settings["LOG_LEVEL"] == "INFO":
        logging.getLogger("scrapy").setLevel(logging.WARNING)
        logging.getLogger("scrapy-playwright").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
    if unknown := unknown_settings():
        logger.warning("%s", unknown)
