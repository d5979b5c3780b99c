"""The composition root: settings to process to service to site; the only wiring.

Nothing heavy is imported at the top: the reactor has to be installed first.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy.settings import Settings
    from twisted.internet.interfaces import IListeningPort
    from twisted.web.resource import Resource

    from scraper_service.api.http_server import JsonSite
    from scraper_service.services.accounts import Accounts
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.mapping import MapCrawler
    from scraper_service.services.operation_calls import OperationCalls
    from scraper_service.services.operations import Work

logger = logging.getLogger("scraper_service")

BACKLOG = 512  # connections that wait to be accepted
RESOLVER_THREADS = 64  # a name that does not resolve blocks one for seconds
OTHER_FILES = 1000  # beside those of connections: fetches, databases, processes
FLUSH_S = 1  # for the last answers to leave
# Made and kept, until the young ones are looked through for circles, of which there are
# few: a page makes some hundred objects, and Python's own limit is 700.
OBJECTS_A_COLLECTION = 10_000


def _url_of(host: str, port: int) -> str:
    """Return the address of a port of this machine, where all it has may be meant."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # to be told from the others
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server:
    """Everything that makes up the running service, started and stopped in order.

    ``announce`` is called once with the address it listens on and, if this start made
    the first key, with the key.
    """

    def __init__(self, settings: Settings, announce: Callable[[str, str | None], None]):
        from scrapy.crawler import AsyncCrawlerProcess
        from scrapy.utils.misc import load_object

        from scraper_service.api.routes.files import with_base
        from scraper_service.api.streams.streaming import Watchers
        from scraper_service.api.webhook_payloads import event_body
        from scraper_service.crawling.converter_pool.pool import ConverterPool
        from scraper_service.search_engines.searches import Searches
        from scraper_service.services.event_loop_lag import LoopLag
        from scraper_service.services.job_following import JobTails
        from scraper_service.services.webhooks import Webhooks
        from scraper_service.storage.accounts.keys import forget_secrets
        from scraper_service.storage.database import Database

        # First of all: it installs the reactor that everything else imports.
        self.process = AsyncCrawlerProcess(settings)
        _configure_logs(settings)
        self.settings = settings
        self.announce = announce
        self.exit_code = 0
        forget_secrets()
        self.data_dir = Path(settings["DATA_DIR"])
        self.database = Database.shared(settings)
        self.pool = ConverterPool.shared(settings)
        # What stands in stored pages for our address is put in where one is sent.
        self._own_url = settings["PUBLIC_URL"].rstrip("/")
        self.webhooks = Webhooks(
            settings,
            self.database,
            lambda event, hook: with_base(event_body(event, hook), self._own_url),
        )
        self.searches = Searches(settings)
        self.watchers = Watchers(settings, JobTails(self.database))
        try:
            make_runner = load_object(settings["JOB_RUNNER"])
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ValueError(f"setting SCRAPER_JOB_RUNNER: {error}") from error
        self.runner: JobRunner = make_runner(self.process, self.database)
        self.lag = LoopLag()
        self._port: IListeningPort | None = None
        self._site: JsonSite | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit code."""
        from twisted.internet import reactor

        reactor.callWhenRunning(self._spawn, self._start)
        self.process.start(stop_after_crawl=False, install_signal_handlers=False)
        return self.exit_code

    async def _start(self) -> None:
        from twisted.internet import reactor
        from twisted.internet.error import CannotListenError

        from scraper_service.api.page_json import page_json
        from scraper_service.crawling.download.engines import Engines
        from scraper_service.crawling.robots import RobotsPolicy
        from scraper_service.errors import ConvertersFailed
        from scraper_service.services.mapping import MapCrawler
        from scraper_service.services.resident_crawler import ResidentCrawler
        from scraper_service.services.service import ScraperService

        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, "resolver"))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        resident = ResidentCrawler(self.process)
        maps = MapCrawler(self.process, self.database)
        self.service = ScraperService(
            resident,
            maps,
            self.runner,
            self.database,
            page_json,
            RobotsPolicy.shared(self.settings),
            self.webhooks,
            Engines.shared(self.settings),
            self.searches,
        )
        calls = self._operation_calls(maps)
        try:
            accounts = await self._accounts()
            await asyncio.gather(
                self.pool.warm_up(), resident.start(), maps.start(), self.runner.open()
            )
            # What was imported stays: full collections need not look at it again.
            gc.collect()
            gc.freeze()
            gc.enable()
            gc.set_threshold(OBJECTS_A_COLLECTION)
            self.operations.open()
            self._site = self._make_site(accounts, calls)
            self._port = reactor.listenTCP(
                self.settings.getint("PORT"),
                self._site,  # type: ignore[arg-type]  # the zope plugin's own type
                BACKLOG,
                self.settings["HOST"],
            )
            # Last of all: it is shown only once, and nothing can keep it from that now.
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
        self.announce(f"http://{listening.host}:{listening.port}", first_key)

    def _key_secret(self) -> bytes:
        from scraper_service.services.accounts import key_secret

        return key_secret(self.data_dir, self.settings["KEY_SECRET"])

    async def _accounts(self) -> Accounts:
        """Return who knows the keys."""
        from scraper_service.services import accounts
        from scraper_service.storage import jobs

        secret = self._key_secret()
        fixed = [k.strip() for k in self.settings.getlist("API_KEYS") if k.strip()]
        enabled = self.settings.getbool("AUTH_ENABLED")
        await self.database.write(accounts.use_fixed_keys, secret, fixed)
        if not enabled:
            await self.database.write(jobs.make_team, accounts.OPEN_TEAM_ID)
        return accounts.DatabaseAccounts(self.database, secret, enabled)

    async def _first_key(self) -> str | None:
        """Make a key if there is none so far, and return it."""
        from scraper_service.services import accounts

        if not self.settings.getbool("AUTH_ENABLED"):
            return None
        if await self.database.read(accounts.list_keys):
            return None
        secret = self._key_secret()
        return await self.database.write(accounts.create_key, secret, "first key")

    def _operation_calls(self, maps: MapCrawler) -> OperationCalls:
        from scraper_service.crawling.download.engines import Engines
        from scraper_service.crawling.pricing import Prices
        from scraper_service.llm.model import language_model
        from scraper_service.services.deep_research.report_writer import ResearchWriter
        from scraper_service.services.deep_research.research import Research
        from scraper_service.services.extraction import Extract
        from scraper_service.services.llms_txt import LlmsText
        from scraper_service.services.operation_calls import OperationCalls
        from scraper_service.services.operation_sources import Sources
        from scraper_service.services.operations import Operations
        from scraper_service.storage.politeness.team_limits import TeamPlaces

        settings, prices = self.settings, Prices(self.settings)
        sources = Sources(maps, self.searches)
        writer = ResearchWriter(language_model(settings), self.pool)
        kinds: dict[str, Work] = {
            "extract": Extract(sources, self.pool, prices, settings),
            "llmstxt": LlmsText(sources, self.pool, prices, settings),
            "deep_research": Research(sources, self.pool, prices, writer),
        }
        self.operations = Operations(self.database, self.runner, kinds)
        return OperationCalls(
            self.operations,
            Engines.shared(settings),
            TeamPlaces.shared(),
            settings,
        )

    def _make_site(self, accounts: Accounts, calls: OperationCalls) -> JsonSite:
        from importlib.metadata import version

        from scraper_service.api.application import Edge
        from scraper_service.api.connections import Connections, Proxies
        from scraper_service.api.http_server import JsonSite, Root
        from scraper_service.api.routes.files import ArtefactFiles
        from scraper_service.api.routes.health import HealthPages
        from scraper_service.api.routes.jobs import Addresses
        from scraper_service.api.v1.app import V1
        from scraper_service.api.v2.app import V2
        from scraper_service.crawling.artefacts import shared_artefacts
        from scraper_service.options.limits import parse_rates, parse_sites
        from scraper_service.services.capabilities import PACKAGE
        from scraper_service.services.health import Health
        from scraper_service.services.health_checks import service_checks
        from scraper_service.services.rate_limits import Rates
        from scraper_service.storage.database import HEAD

        proxies = Proxies(self.settings.getlist("TRUSTED_PROXIES"))
        addresses = Addresses(self.settings["PUBLIC_URL"], proxies)
        rates = Rates(self.database, parse_rates(self.settings.getlist("RATE_LIMITS")))
        sites = parse_sites(self.settings.getlist("BLOCKED_SITES"))
        edge = Edge(accounts, self.pool, addresses, rates, sites)
        versions: dict[str, Resource] = {
            "v1": V1(edge, self.service, self.watchers, calls).app.resource(),
            "v2": V2(edge, self.service, self.watchers, calls).app.resource(),
        }
        files = ArtefactFiles(shared_artefacts(self.settings))
        checks = service_checks(self.settings, self.database, self.pool, self.lag)
        health = HealthPages(
            Health(checks, lambda: self.service.stopping),
            self.facts,
            {"version": version(PACKAGE), "schemaVersion": HEAD},
        )
        root = Root({**versions, "artefacts": files, "health": health})
        connections = Connections(
            _connections_at_most(self.settings.getint("MAX_CONNECTIONS")),
            self.settings.getint("MAX_PEER_CONNECTIONS"),
            proxies,
        )
        return JsonSite(root, connections)

    def facts(self) -> dict[str, Any]:
        """Return what ``/health`` tells where all is well."""
        return {
            "success": True,
            "status": "ok",
            "pendingMaps": self.service.maps.pending,
            "pendingScrapes": self.service.resident.pending,
            "pendingSearches": self.searches.pending,
            "watchers": self.watchers.count,
            "loopLagP99Ms": self.lag.p99_ms(),
        }

    def _signalled(self) -> None:
        if self.service.stopping:
            logger.warning("told to stop again: leaving work under way")
            self._leave()
        else:
            logger.info("stopping: work under way is finished first")
            self._spawn(self._stop)

    async def _stop(self) -> None:
        from scraper_service.crawling.page_index import SearchIndex

        self.service.stopping = True
        self.lag.stop()
        if self._port is not None:
            self._port.stopListening()
        await self.watchers.close()
        await self.operations.close()
        await self.service.runner.close()
        timeout = self.settings.getfloat("SHUTDOWN_TIMEOUT_S")
        try:
            async with asyncio.timeout(timeout):
                await self.service.maps.drained()
                await self.process.stop()
        except TimeoutError:
            logger.warning("work was still under way after %s s", timeout)
        await self.webhooks.close()
        await self.searches.close()
        await self._flush()
        await SearchIndex.close_all()
        await self.database.drain()
        self._leave()

    async def _flush(self) -> None:
        """Let the last answers leave, but not for long."""
        end = time.monotonic() + FLUSH_S
        while self._site is not None and time.monotonic() < end:
            await asyncio.sleep(FLUSH_S / 20)
            if not self._site.answering:
                return

    def _leave(self) -> None:
        from twisted.internet import reactor

        self.pool.close()
        self.database.close()
        reactor.stop()

    def _spawn(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # The reactor calls this before it runs the loop.
        task = asyncio.get_event_loop().create_task(function())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _connections_at_most(wanted: int) -> int:
    """Return how many connections there may be, by the limit of open files.

    Raises that limit as far as needed and allowed. A process at its limit can neither
    fetch nor read its database.
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
    """Write the access log as bare lines, and keep Scrapy's greetings out."""
    from scraper_service.settings import unknown_settings

    access = logging.getLogger("scraper_service.access")
    access.addHandler(logging.StreamHandler())
    access.propagate = False
    if settings["LOG_LEVEL"] == "INFO":
        logging.getLogger("scrapy").setLevel(logging.WARNING)
        logging.getLogger("scrapy-playwright").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
    if unknown := unknown_settings():
        logger.warning("no setting has the name %s", ", ".join(unknown))


def serve(settings: Settings, announce: Callable[[str, str | None], None]) -> int:
    """Run the service until it is told to stop; return the exit code."""
    gc.disable()  # until it has started: next to nothing of what is made is garbage
    return Server(settings, announce).run()
