"""The composition root: makes all parts of the service from the settings.

Imports are inside functions, since the reactor must be installed first.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scraper_service.shared_objects import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings
    from twisted.internet.interfaces import IListeningPort

    from scraper_service.api.application import RequestChecks
    from scraper_service.api.http_server import JsonRequest, JsonSite
    from scraper_service.api.openapi.described import RootResource
    from scraper_service.api.routing import VersionApp
    from scraper_service.api.version import Services
    from scraper_service.crawling.metrics import LoopLag
    from scraper_service.services.accounts import DatabaseAccounts
    from scraper_service.services.billing import Charges
    from scraper_service.services.browser_sessions.sessions import BrowserSessions
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.metrics.health import Health
    from scraper_service.services.monitoring.channels import ChannelSender
    from scraper_service.services.monitoring.mail import Mailer
    from scraper_service.services.monitoring.scheduler import MonitorScheduler
    from scraper_service.services.operations.operations import (
        OperationCalls,
        Operations,
        Work,
    )
    from scraper_service.storage.accounts.audit import Actor

    AnnounceT = Callable[[str, str | None, str | None], None]

logger = logging.getLogger("scraper_service")

BACKLOG = 512  # connections that wait to be accepted
RESOLVER_THREADS = 64  # a host name that does not resolve blocks a thread for seconds
OTHER_FILES = 1000  # open files besides client connections: fetches, databases, pipes
FLUSH_S = 1  # for the last responses to be sent
# After the port is closed, for the requests of connections that were accepted before.
LAST_REQUESTS_S = 1
ACCEPTS = 1000  # of connections that wait when the port is closed
LOOK_S = 0.05  # between two looks at the running requests
# A signal to the group of make and the service reaches the service twice.
SAME_SIGNAL_S = 0.5
LEAVE_S = 10  # from the end of the parts to the end of the process


def _url_of(host: str, port: int) -> str:
    """Return the URL of a port of this machine; localhost for all addresses."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # only compared
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server:
    """The running service: makes, starts and stops all parts in order.

    ``announce`` is called once with the URL of the service, with the first API key if this
    start has made it, else None, and with a URL that signs in with this key, once. The constructor raises :exc:`ValueError` for
    invalid settings, and :exc:`~scraper_service.errors.DatabaseUnusable`.
    """

    #: None before the start.
    sessions: BrowserSessions | None = None

    def __init__(self, settings: Settings, announce: AnnounceT):
        from scrapy.crawler import AsyncCrawlerProcess

        from scraper_service.api.application import with_base
        from scraper_service.api.streams.streaming import Watchers
        from scraper_service.api.webhook_payloads import event_body
        from scraper_service.crawling.artefacts import object_store
        from scraper_service.crawling.converter_pool.pool import ConverterPool
        from scraper_service.crawling.download.engines import Engines
        from scraper_service.search_engines.searches import Searches
        from scraper_service.services.capabilities import Availability
        from scraper_service.services.job_following import JobTails
        from scraper_service.services.mapping import MapCrawler
        from scraper_service.services.metrics.health import ServiceManager
        from scraper_service.services.metrics.sentry import error_reports
        from scraper_service.services.metrics.tracing import shared_traces
        from scraper_service.services.resident_crawler import ResidentCrawler
        from scraper_service.services.webhooks import Webhooks
        from scraper_service.storage.database import Database
        from scraper_service.storage.secrets import forget_secrets

        self.manager = ServiceManager()
        # First: it installs the reactor that other modules import.
        settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")
        self.process = AsyncCrawlerProcess(settings)
        _configure_logs(settings)
        self.reports = error_reports(settings)
        self.traces = shared_traces()
        self.settings = settings
        self.announce = announce
        self.exit_code = 0
        self.stored = object_store(
            settings
        )  # it reads its credentials here, or is None
        forget_secrets(of_stores=True)
        self.data_dir = Path(settings["DATA_DIR"])
        self.database = Database.shared(settings)
        self.pool = ConverterPool.shared(settings)
        # Stored pages have a placeholder, which this URL replaces in webhook deliveries.
        self._own_url = settings["PUBLIC_URL"].rstrip("/")
        self.webhooks = Webhooks(
            settings,
            self.database,
            lambda event, hook: with_base(event_body(event, hook), self._own_url),
        )
        self.searches = Searches(settings)
        self.watchers = Watchers(settings, JobTails(self.database))
        self.runner = self._make_runner()
        self.resident = ResidentCrawler(self.process)
        self.maps = MapCrawler(self.process, self.database)
        self.availability = Availability(settings, Engines.shared(settings))
        self.calls = self._operation_calls()
        self.checks, self.scheduler = self._monitoring()
        self.mailer, self.channels = self._messengers()
        self.lag, self.health = self._health()
        self._is_leaving = False
        self._signalled_at = -math.inf
        self._port: IListeningPort | None = None
        self._site: JsonSite | None = None
        self._tasks = BackgroundTasks()

    def _health(self) -> tuple[LoopLag, Health]:
        from scraper_service.crawling.metrics import LoopLag
        from scraper_service.services.metrics.health import Health, service_checks

        lag = LoopLag()
        found = service_checks(
            self.settings, self.database, self.pool, lag, self.stored
        )
        return lag, Health(found, lambda: self._is_leaving)

    def _make_runner(self) -> JobRunner:
        from scrapy.utils.misc import load_object

        try:
            make_runner = load_object(self.settings["JOB_RUNNER"])
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ValueError(f"setting SCRAPER_JOB_RUNNER: {error}") from error
        runner: JobRunner = make_runner(self.process, self.database)
        return runner

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit code."""
        from twisted.internet import reactor

        reactor.callWhenRunning(lambda: self._tasks.spawn(self._start()))
        self.process.start(stop_after_crawl=False, install_signal_handlers=False)
        return self.exit_code

    async def _start(self) -> None:
        from twisted.internet import reactor
        from twisted.internet.error import CannotListenError

        from scraper_service.errors import ConvertersFailed

        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, "resolver"))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        try:
            accounts = await self._accounts()
            await asyncio.gather(
                self.pool.warm_up(),
                self.resident.start(),
                self.maps.start(),
                self.runner.open(),
            )
            # Imported modules stay, so full collections can skip them. A collection
            # before would take 0.1 s, and free a few thousand small objects.
            gc.freeze()
            gc.enable()
            self.operations.open()
            self.checks.open()
            self.scheduler.open()
            self.mailer.open()
            self.channels.open()
            self._site = self._make_site(accounts)
            assert self.sessions is not None
            self.sessions.open()
            self._port = reactor.listenTCP(
                self.settings.getint("PORT"),
                self._site,  # type: ignore[arg-type]  # the zope plugin's own type
                BACKLOG,
                self.settings["HOST"],
            )
            # Last: the key is shown only once, so nothing may fail after this.
            first_key = await self._first_key()
        except CannotListenError as error:
            text = "%s:%s cannot be listened on (%s); is the service running?"
            cause = getattr(error.socketError, "strerror", None) or error.socketError
            logger.error(f"{text} Else use --port", error.interface, error.port, cause)
            self.exit_code = 1
            await self._stop()
            return
        except ConvertersFailed as error:
            logger.error("the service could not start: %s", error)
            self.exit_code = 1
            await self._stop()
            return
        except Exception:
            logger.exception("the service could not start")
            self.exit_code = 1
            await self._stop()
            return
        self.lag.start()
        listening: Any = self._port.getHost()
        self._own_url = self._own_url or _url_of(listening.host, listening.port)
        self.webhooks.open()
        address = f"http://{listening.host}:{listening.port}"
        sign_in = None
        if first_key is not None:
            sign_in = f"{self._own_url}/#sign-in={self._web_sessions.link(first_key)}"
        self.announce(address, first_key, sign_in)
        self.manager.ready()

    def _key_secret(self) -> bytes:
        from scraper_service.storage.secrets import key_secret

        return key_secret(self.data_dir, self.settings["KEY_SECRET"])

    async def _accounts(self) -> DatabaseAccounts:
        """Return the accounts with the keys of the settings."""
        from scraper_service.services import accounts
        from scraper_service.storage.accounts import audit, keys, known_secret
        from scraper_service.storage.jobs.jobs import Jobs

        secret = self._key_secret()
        fixed = [k.strip() for k in self.settings.getlist("API_KEYS") if k.strip()]
        enabled = self.settings.getbool("AUTH_ENABLED")
        actor = self._actor(audit.SETTINGS)
        if not await self.database.write(known_secret.note_secret, secret):
            logger.warning("%s", known_secret.ANOTHER)
        for end in await self.database.write(keys.use_fixed_keys, secret, fixed, actor):
            logger.warning(
                "the key ...%s of SCRAPER_API_KEYS was revoked by `keys revoke` and stays"
                " so: take it out of the setting",
                end,
            )
        if not enabled:
            await Jobs(self.database).make_team(accounts.OPEN_TEAM_ID)
        return accounts.DatabaseAccounts(self.database, secret, enabled)

    async def _first_key(self) -> str | None:
        """Return a new key if the database has no key, else None."""
        from scraper_service.storage.accounts import audit, keys

        if not self.settings.getbool("AUTH_ENABLED"):
            return None
        if await self.database.read(keys.list_keys):
            return None
        return await self.database.write(
            keys.create_key,
            self._key_secret(),
            "first key",
            actor=self._actor(audit.SERVICE),
        )

    def _actor(self, name: str) -> Actor | None:
        """Return who acts in the audit log, None if the log is off."""
        from scraper_service.storage.accounts.audit import Actor

        return Actor(name) if self.settings.getint("AUDIT_DAYS") else None

    def _operation_calls(self) -> OperationCalls:
        from scraper_service.crawling.download.engines import Engines
        from scraper_service.crawling.politeness.team_limits import TeamPermits
        from scraper_service.crawling.pricing import Prices
        from scraper_service.llm.model import language_model
        from scraper_service.services.operations.agent.agent import Agent
        from scraper_service.services.operations.agent.agent_writer import AgentWriter
        from scraper_service.services.operations.deep_research.report_writer import (
            ResearchWriter,
        )
        from scraper_service.services.operations.deep_research.research import Research
        from scraper_service.services.operations.extraction import Extract
        from scraper_service.services.operations.llms_txt import LlmsText
        from scraper_service.services.operations.operations import (
            OperationCalls,
            Operations,
        )
        from scraper_service.services.operations.sources import Sources

        settings, prices = self.settings, Prices(self.settings)
        sources = Sources(self.maps, self.searches)
        model = language_model(settings)
        writer = ResearchWriter(model, self.pool)
        chooser = AgentWriter(model, settings)
        kinds: dict[str, Work] = {
            "extract": Extract(sources, self.pool, prices, settings),
            "agent": Agent(sources, self.pool, prices, chooser, settings),
            "llmstxt": LlmsText(sources, self.pool, prices, settings),
            "deep_research": Research(sources, self.pool, prices, writer),
        }
        self.operations = Operations(
            self.database,
            self.runner,
            kinds,
            settings.getint("MAX_RUNNING_OPERATIONS"),
        )
        return OperationCalls(
            self.operations,
            Engines.shared(settings),
            TeamPermits.shared(),
            settings,
        )

    def _monitoring(self) -> tuple[Operations, MonitorScheduler]:
        """Return what runs the checks of monitors, and what starts them."""
        from scraper_service.crawling.pricing import Prices
        from scraper_service.llm.model import language_model
        from scraper_service.services.monitoring.check_run import MonitorCheck
        from scraper_service.services.monitoring.scheduler import MonitorScheduler
        from scraper_service.services.operations.operations import Operations
        from scraper_service.storage.jobs.job_records import MONITOR_CHECK

        settings = self.settings
        work = MonitorCheck(
            self.database,
            self.runner,
            self.pool,
            self.searches,
            Prices(settings),
            language_model(settings),
            settings,
        )
        checks = Operations(
            self.database,
            self.runner,
            {MONITOR_CHECK: work},
            settings.getint("MONITOR_CONCURRENCY"),
        )
        usual_mb = settings.getint("TEAM_DISK_MB")
        scheduler = MonitorScheduler(self.database, checks.wake, usual_disk_mb=usual_mb)
        return checks, scheduler

    def _messengers(self) -> tuple[Mailer, ChannelSender]:
        """Return what sends the mail and the messages of checks."""
        from scraper_service.services.monitoring.channels import (
            Channels,
            ChannelSender,
        )
        from scraper_service.services.monitoring.mail import Mailer, MailServer

        settings = self.settings
        mail = settings["SMTP_URL"]
        server = MailServer.parse(mail) if mail else None
        channels = Channels.parse(
            settings.getlist("NOTIFICATION_CHANNELS"), settings.getlist("EGRESS_ALLOW")
        )
        return Mailer(self.database, server), ChannelSender(self.database, channels)

    def _make_services(self, charges: Charges) -> Services:
        from scraper_service.api.responses import page_json
        from scraper_service.api.version import Services
        from scraper_service.crawling.change_tracking import Changes
        from scraper_service.crawling.download.engines import Engines
        from scraper_service.crawling.pricing import Prices
        from scraper_service.crawling.robots import RobotsPolicy
        from scraper_service.exports.job_exports import Exports
        from scraper_service.options.limits import Retention
        from scraper_service.services.browser_sessions.sessions import BrowserSessions
        from scraper_service.services.capabilities import capabilities
        from scraper_service.services.crawl_preview import Previews
        from scraper_service.services.jobs import TeamJobs
        from scraper_service.services.monitoring.monitors import (
            Messengers,
            TeamMonitors,
        )
        from scraper_service.services.scraping import Scrapes, Scraping
        from scraper_service.services.usage import Usage
        from scraper_service.storage.files.uploads import Uploads

        settings, prices = self.settings, Prices(self.settings)
        scrapes = Scrapes(self.resident, settings)
        engines = Engines.shared(settings)
        scraping = Scraping(
            scrapes,
            self.maps,
            self.searches,
            self.database,
            charges,
            prices,
            self.availability,
            Changes(settings),
            page_json,
            Retention.of(settings),
            keeps_replays=settings.getint("BROWSER_SESSIONS") > 0
            and engines.missing is None,
        )
        jobs = TeamJobs(
            self.database,
            self.runner,
            self.webhooks,
            Previews(self.maps, settings),
            RobotsPolicy.shared(settings),
            prices,
            self.availability,
        )
        self.sessions = BrowserSessions(
            settings,
            self.database,
            self.runner.owner,
            charges,
            self.availability,
            engines,
            self.resident,
            scraping,
        )
        return Services(
            scraping=scraping,
            jobs=jobs,
            browser_sessions=self.sessions,
            exports=Exports(self.database),
            operations=self.calls,
            usage=Usage(self.database, scrapes, settings),
            monitors=TeamMonitors(
                self.database,
                self.runner,
                self.checks,
                prices,
                self.availability,
                Messengers(self.mailer, self.channels),
                settings,
            ),
            uploads=Uploads(self.database, self.settings.getint("TEAM_DISK_MB")),
            capabilities=lambda: capabilities(settings, engines, self.searches),
        )

    def _make_site(self, accounts: DatabaseAccounts) -> JsonSite:
        from attrs import asdict

        from scraper_service.api.application import RequestChecks
        from scraper_service.api.connections import Connections, TrustedProxies
        from scraper_service.api.http_server import JsonSite, Root
        from scraper_service.api.parameters import PublicUrls
        from scraper_service.api.routes.files import ArtefactFiles
        from scraper_service.api.routes.openapi import OpenApiPage
        from scraper_service.api.routes.uploads import UploadPages
        from scraper_service.api.v1.app import V1
        from scraper_service.api.v2.app import V2
        from scraper_service.crawling.artefacts import shared_artefacts
        from scraper_service.crawling.pricing import Prices
        from scraper_service.options.limits import parse_rates, parse_sites
        from scraper_service.services.accounts import DiskQuota, Rates
        from scraper_service.services.billing import Charges
        from scraper_service.web.files import StartPage, WebFiles
        from scraper_service.web.routes import WebRoutes
        from scraper_service.web.sessions import SessionChecks, WebSessions

        settings = self.settings
        proxies = TrustedProxies(settings.getlist("TRUSTED_PROXIES"))
        disk = DiskQuota(self.database, settings.getint("TEAM_DISK_MB"))
        charges = Charges(self.database, self.runner.owner, disk)
        checks = RequestChecks(
            accounts=accounts,
            pool=self.pool,
            rates=Rates(self.database, parse_rates(settings.getlist("RATE_LIMITS"))),
            sites=parse_sites(settings.getlist("BLOCKED_SITES")),
            charges=charges,
            prices=Prices(settings),
            proxies=proxies,
            is_audited=settings.getint("AUDIT_DAYS") > 0,
        )
        services = self._make_services(charges)
        urls = PublicUrls(settings["PUBLIC_URL"], proxies)
        versions = [
            version(checks, services, self.watchers, urls) for version in (V1, V2)
        ]
        below: dict[str, RootResource] = {
            "artefacts": ArtefactFiles(
                shared_artefacts(settings),
                self.database,
                settings.getfloat("WATCHER_STALL_S"),
            ),
            "uploads": UploadPages(services.uploads),
            "health": self._health_pages(),
        }
        if settings["METRICS"] != "off":
            below["metrics"] = self._metrics_page()
        if settings.getbool("MCP"):
            below["mcp"] = self._mcp_page(versions[-1], checks, services)
        below["openapi.json"] = OpenApiPage(
            versions, below, urls, services.capabilities
        )
        apps = {f"v{each.api.version}": each.klein.resource() for each in versions}
        below["docs"] = page = StartPage()  # type: ignore[no-untyped-call]
        self._web_sessions = WebSessions(accounts, self._key_secret(), urls)
        session_checks = SessionChecks(
            sessions=self._web_sessions, **asdict(checks, recurse=False)
        )
        web = V2(session_checks, services, self.watchers, urls, (WebRoutes,))
        files = WebFiles(web.klein.resource())
        root = Root({**apps, **below, "web": files}, page)
        connections = Connections(
            _connections_at_most(settings.getint("MAX_CONNECTIONS")),
            settings.getint("MAX_PEER_CONNECTIONS"),
            proxies,
        )
        return JsonSite(root, connections, self.traces)

    def _mcp_page(
        self, app: VersionApp, checks: RequestChecks, services: Services
    ) -> RootResource:
        """Return ``/mcp``, and add its alias to the routes of ``app``."""
        from importlib.metadata import version

        from scraper_service.api.mcp.inner_calls import InnerCalls
        from scraper_service.api.mcp.routes import McpEndpoint, McpPage
        from scraper_service.api.mcp.server import McpServer, check_tools, new_id
        from scraper_service.crawling.download.engines import Engines
        from scraper_service.services.capabilities import PACKAGE
        from scraper_service.storage.secrets import derived_key

        settings = self.settings
        engines = Engines.shared(settings)

        async def keep(request: JsonRequest, body: bytes) -> str:
            answer_id = new_id()
            team = await checks.find_team(request)
            await services.scraping.keep_answer(answer_id, body, team)
            return answer_id

        async def read(request: JsonRequest, answer_id: str) -> bytes | None:
            team = await checks.find_team(request)
            return await services.scraping.kept_answer(answer_id, team)

        endpoint = McpEndpoint(
            server=McpServer(
                name=PACKAGE,
                version=version(PACKAGE),
                calls=InnerCalls("/v2", app.routes, app.wire_name),
                pool=self.pool,
                keep=keep,
                read=read,
                usual_tokens=settings.getint("MCP_MAX_TOKENS"),
                chosen=check_tools(settings.getlist("MCP_TOOLS")),
                has_browser=lambda: engines.missing is None,
                key=derived_key(self._key_secret(), "cursors of tools"),
                has_model=bool(settings["LLM_BASE_URL"]),
            ),
            checks=checks,
            origins=frozenset(settings.getlist("MCP_ORIGINS")),
            has_keys=settings.getbool("AUTH_ENABLED"),
        )
        return McpPage(app, endpoint)

    def _health_pages(self) -> RootResource:
        from importlib.metadata import version

        from scraper_service.api.routes.health import HealthPages
        from scraper_service.services.capabilities import PACKAGE
        from scraper_service.storage.database import HEAD

        return HealthPages(
            self.health,
            self.facts,
            {"version": version(PACKAGE), "schemaVersion": HEAD},
        )

    def _metrics_page(self) -> RootResource:
        from scraper_service.api.routes.metrics import MetricsAccess, MetricsPage
        from scraper_service.services.metrics.service_metrics import Metrics

        metrics = Metrics(self.database, self.health, self.data_dir)
        settings = self.settings
        return MetricsPage(
            metrics, MetricsAccess(settings["METRICS"], settings["METRICS_KEY"])
        )

    def facts(self) -> dict[str, Any]:
        """Return the members of ``/health`` of a ready service."""
        return {
            "success": True,
            "status": "ok",
            "pendingMaps": self.maps.pending,
            "pendingScrapes": self.resident.pending,
            "pendingSearches": self.searches.pending,
            "watchers": self.watchers.count,
            "loopLagP99Ms": self.lag.p99_ms(),
        }

    def _signalled(self) -> None:
        now = time.monotonic()
        if not self._is_leaving:
            self._is_leaving = True
            self._signalled_at = now
            logger.info("stopping after running work has ended")
            self._tasks.spawn(self._drain_and_stop())
        elif now - self._signalled_at > SAME_SIGNAL_S:
            logger.warning("second signal: stopping at once, running work is lost")
            _end_process()

    async def _drain_and_stop(self) -> None:
        """Serve for ``DRAIN_S`` more, so that load balancers turn away first.

        From the signal on the service is not ready, and each response closes its
        connection. A call that another service can take is not lost: the port closes while
        no request is on its way to it.
        """
        drain_s = self.settings.getfloat("DRAIN_S")
        if self._site is not None:
            self._site.is_leaving = True
        if self._port is not None and drain_s > 0:
            await asyncio.sleep(drain_s)
            self._accept_the_last()
            self._port.stopListening()
            await asyncio.sleep(LAST_REQUESTS_S)
        await self._stop()

    def _accept_the_last(self) -> None:
        """Accept connections that the kernel would reset with the port."""
        port: Any = self._port
        port.numberAccepts = ACCEPTS
        port.doRead()

    async def _stop(self) -> None:
        """Close all parts in order, then leave. Continues after parts that fail."""
        from scraper_service.crawling.page_index import SearchIndex

        self._is_leaving = self.availability.stopping = True
        self.manager.stopping()
        self.lag.stop()
        if self._port is not None:
            self._port.stopListening()
        for close in (
            self.watchers.close,
            *(() if self.sessions is None else (self.sessions.close,)),
            self.scheduler.close,
            self.mailer.close,
            self.channels.close,
            self.checks.close,
            self.operations.close,
            self.runner.close,
            self._finish_crawls,
            self.webhooks.close,
            self.searches.close,
            self._flush,
            SearchIndex.close_all,
            self.database.drain,
            *(each.stop for each in (self.traces, self.reports) if each is not None),
        ):
            try:
                await close()
            except Exception:
                logger.exception("a part of the service could not be closed")
        self._leave()

    async def _finish_crawls(self) -> None:
        """Let running work end, for at most ``SHUTDOWN_TIMEOUT_S``.

        Jobs stop after their running pages. Calls end first: a search may still need the
        crawler of single pages.
        """
        from scraper_service.services.job_runner import stop_crawlers

        timeout = self.settings.getfloat("SHUTDOWN_TIMEOUT_S")
        kept = (self.resident.crawler, self.maps.crawler)
        jobs = [each for each in self.process.crawlers if each not in kept]
        try:
            async with asyncio.timeout(timeout):
                ending = (self._answered(), *(each.stop_async() for each in jobs))
                await asyncio.wait([asyncio.ensure_future(each) for each in ending])
                await stop_crawlers(self.process)
        except TimeoutError:
            logger.warning("some work was still running after %s s", timeout)

    async def _answered(self) -> None:
        """Wait until all requests have their responses."""
        while self._site is not None and self._site.answering:  # noqa: ASYNC110  # a count
            await asyncio.sleep(LOOK_S)

    async def _flush(self) -> None:
        """Wait until the last responses are sent, for at most :data:`FLUSH_S`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await asyncio.sleep(LOOK_S)
                await self._answered()

    def _leave(self) -> None:
        from twisted.internet import reactor

        # Scrapy's shutdown waits for its crawls, and the interpreter for its threads.
        end = threading.Timer(LEAVE_S, _end_process, (self.exit_code,))
        end.daemon = True
        end.start()
        self.pool.close()
        self.database.close()
        reactor.stop()


def _end_process(code: int = 1) -> None:
    """End as after a crash: child processes end with the connections to this one."""
    logging.shutdown()
    os._exit(code)


def _connections_at_most(wanted: int) -> int:
    """Return the number of connections that the limit of open files permits.

    Increase this limit as far as needed and allowed. A process at its limit can neither
    fetch pages nor read its database.
    """
    infinity = resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == infinity:
        return wanted
    needed = wanted + OTHER_FILES
    if soft < needed:
        soft = needed if hard == infinity else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = max(1, min(wanted, soft - min(OTHER_FILES, soft // 2)))
    if most < wanted:
        text = (
            "SCRAPER_MAX_CONNECTIONS is %s, not %s: this process may open %s files"
            " (ulimit -n)"
        )
        logger.warning(text, most, wanted, soft)
    return most


def _configure_logs(settings: Settings) -> None:
    """Configure the log, with or without access log and without Scrapy's messages."""
    from scraper_service.crawling.logs import configure_logs
    from scraper_service.settings import unknown_settings

    configure_logs(settings)
    if not settings.getbool("ACCESS_LOG"):
        logging.getLogger("scraper_service.access").disabled = True
    if settings["LOG_LEVEL"] == "INFO":
        logging.getLogger("scrapy").setLevel(logging.WARNING)
        logging.getLogger("scrapy-playwright").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
    if unknown := unknown_settings():
        logger.warning("no setting has the name %s", ", ".join(unknown))


def serve(settings: Settings, announce: AnnounceT) -> int:
    """Run the service until SIGTERM or SIGINT; return the exit code."""
    gc.disable()  # until it has started: few of the first objects are garbage
    return Server(settings, announce).run()
