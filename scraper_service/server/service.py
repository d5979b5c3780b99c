"""The service: its HTTP API in front of the background work."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING, Any

from scraper_service.server.process import Front, MainProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings

    from scraper_service.api.http_server import JsonRequest, JsonSite
    from scraper_service.api.openapi.route import RootResource
    from scraper_service.api.request_checks import RequestChecks
    from scraper_service.api.routing import Services, VersionApp
    from scraper_service.server.background import Background
    from scraper_service.server.listener import Listener
    from scraper_service.services.accounts import Accounts, Charges
    from scraper_service.services.browser_sessions.sessions import BrowserSessions
    from scraper_service.storage.accounts.audit import Actor

    AnnounceT = Callable[[str, str | None, str | None], None]

logger = logging.getLogger("scraper_service")


class ApiFront(Front):
    """The HTTP API, the web page, and the crawler of single pages.

    ``announce`` is called once with the URL of the service, with the first API key if this
    start has made it, else None, and with a URL that signs in with this key, once. The
    constructor raises :exc:`ValueError` for invalid settings.
    """

    #: None before the start.
    sessions: BrowserSessions | None = None

    def __init__(self, background: Background, announce: AnnounceT):
        from scraper_service.api.mcp.server import check_tools
        from scraper_service.api.streams.streaming import Watchers
        from scraper_service.crawling.middlewares import Engines
        from scraper_service.services.capabilities import Availability
        from scraper_service.services.job_following import JobTails
        from scraper_service.services.resident_crawler import ResidentCrawler
        from scraper_service.storage.accounts.teams import MISMATCH

        self._background = background
        self._announce = announce
        self.settings = settings = background.settings
        background.check_secret(MISMATCH)
        self._tools = check_tools(settings.getlist("MCP_TOOLS"))
        self.database = background.database
        self.resident = ResidentCrawler(background.process)
        self.kept = (self.resident.crawler,)
        self.watchers = Watchers(settings, JobTails(self.database))
        self.availability = Availability(settings, Engines.shared(settings))
        self._accounts: Accounts | None = None
        self._listener: Listener | None = None
        self._key: str | None = None

    async def start(self) -> None:
        """Store the keys of the settings."""
        self._accounts = await self._make_accounts()

    async def warm_up(self) -> None:
        """Open the crawler of single pages."""
        await self.resident.start()

    async def open(self) -> None:
        """Open the port, and make the first key."""
        from scraper_service.server.listener import Listener

        assert self._accounts is not None
        site = self._make_site(self._accounts)
        assert self.sessions is not None
        self.sessions.open()
        listener = Listener(self.settings, self.settings.getint("PORT"), site)
        listener.open()
        self._listener = listener
        # Last: the key is shown only once, so nothing may fail after this.
        self._key = await self._first_key()
        background = self._background
        background.own_url = background.own_url or listener.url

    def announce(self) -> None:
        """Print the URL, and the first key with a URL that signs in with it."""
        assert self._listener is not None
        sign_in = None
        if self._key is not None:
            link = self._web_sessions.link(self._key)
            sign_in = f"{self._background.own_url}/#sign-in={link}"
        self._announce(self._listener.address, self._key, sign_in)

    async def drain(self) -> None:
        """Serve for ``DRAIN_S`` more, as a service that is not ready."""
        if self._listener is not None:
            await self._listener.drain(self.settings.getfloat("DRAIN_S"))

    def leave(self) -> None:
        """Accept no further requests and begin no further jobs."""
        self.availability.stopping = True
        if self._listener is not None:
            self._listener.close()

    async def close(self) -> None:
        """End streams and browser sessions."""
        ending = [self.watchers.close()]
        if self.sessions is not None:
            ending.append(self.sessions.close())
        await asyncio.gather(*ending)

    async def wait_until_answered(self) -> None:
        """Wait until all requests have their responses."""
        if self._listener is not None:
            await self._listener.wait_until_answered()

    def give_up(self) -> None:
        """End the requests that still run with a 503."""
        if self._listener is not None:
            self._listener.give_up()

    async def flush(self) -> None:
        """Wait a little until the last responses are sent."""
        if self._listener is not None:
            await self._listener.flush()

    def _key_secret(self) -> bytes:
        from scraper_service.storage.secrets import key_secret

        return key_secret(self._background.data_dir, self.settings["KEY_SECRET"])

    async def _make_accounts(self) -> Accounts:
        from scraper_service.services import accounts
        from scraper_service.storage.accounts import audit, teams
        from scraper_service.storage.jobs.jobs import Jobs

        secret = self._key_secret()
        fixed = [k.strip() for k in self.settings.getlist("API_KEYS") if k.strip()]
        enabled = self.settings.getbool("AUTH_ENABLED")
        actor = self._actor(audit.SETTINGS)
        await self.database.write(teams.note_secret, secret)
        ends = await self.database.write(teams.use_fixed_keys, secret, fixed, actor)
        for end in ends:
            logger.warning(
                "the key ...%s of SCRAPER_API_KEYS was revoked by `keys revoke` and stays"
                " so: take it out of the setting",
                end,
            )
        if not enabled:
            await Jobs(self.database).make_team(accounts.OPEN_TEAM_ID)
        return accounts.Accounts(self.database, secret, enabled)

    async def _first_key(self) -> str | None:
        """Return a new key if the database has no key, else None."""
        from scraper_service.storage.accounts import audit, teams

        if not self.settings.getbool("AUTH_ENABLED"):
            return None
        if await self.database.read(teams.list_keys):
            return None
        secret, actor = self._key_secret(), self._actor(audit.SERVICE)
        return await self.database.write(
            teams.create_key, secret, "first key", actor=actor
        )

    def _actor(self, name: str) -> Actor | None:
        """Return the actor for the audit log, None if the log is off."""
        from scraper_service.storage.accounts.audit import Actor

        return Actor(name) if self.settings.getint("AUDIT_DAYS") else None

    def _make_services(self, charges: Charges) -> Services:
        from scraper_service.api.responses import page_json
        from scraper_service.api.routing import Services
        from scraper_service.crawling.download.stored_responses import source_files
        from scraper_service.crawling.middlewares import Engines
        from scraper_service.crawling.pipelines.change_tracking import Changes
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
        from scraper_service.services.scraping import Scrapes, Scraping, Usage
        from scraper_service.storage.accounts.credits import Prices
        from scraper_service.storage.files.uploads import Uploads

        settings, prices = self.settings, Prices(self.settings)
        scrapes = Scrapes(self.resident, settings)
        engines = Engines.shared(settings)
        scraping = Scraping(
            scrapes,
            self._background.maps,
            self._background.searches,
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
            self._background.runner,
            self._background.webhooks,
            Previews(self._background.maps, settings),
            RobotsPolicy.shared(settings),
            prices,
            self.availability,
            self._background.kinds,
        )
        self.sessions = BrowserSessions(
            settings,
            self.database,
            self._background.runner.owner,
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
            exports=Exports(self.database, source_files(settings)),
            usage=Usage(self.database, scrapes, settings),
            monitors=TeamMonitors(
                self.database,
                self._background.runner,
                prices,
                self.availability,
                Messengers(self._background.mailer, self._background.channels),
                settings,
            ),
            uploads=Uploads(self.database, self.settings.getint("TEAM_DISK_MB")),
            capabilities=lambda: capabilities(
                settings, engines, self._background.searches
            ),
        )

    def _make_site(self, accounts: Accounts) -> JsonSite:
        from attrs import asdict

        from scraper_service.api.http_connections import Connections, TrustedProxies
        from scraper_service.api.http_server import JsonSite, Root
        from scraper_service.api.openapi.document import OpenApiPage
        from scraper_service.api.parameters import PublicUrls
        from scraper_service.api.request_checks import RequestChecks
        from scraper_service.api.routes.files import ArtefactFiles, UploadPages
        from scraper_service.api.versions import V1, V2
        from scraper_service.crawling.artefacts import shared_artefacts
        from scraper_service.options.limits import Retention, parse_rates, parse_sites
        from scraper_service.server.listener import connections_at_most, probe_pages
        from scraper_service.services.accounts import Charges, DiskQuota, Rates
        from scraper_service.storage.accounts.credits import Prices
        from scraper_service.web.files import StartPage, WebFiles
        from scraper_service.web.routes import SessionChecks, WebRoutes, WebSessions

        settings = self.settings
        proxies = TrustedProxies(settings.getlist("TRUSTED_PROXIES"))
        disk = DiskQuota(self.database, settings.getint("TEAM_DISK_MB"))
        charges = Charges(self.database, self._background.runner.owner, disk)
        checks = RequestChecks(
            accounts=accounts,
            pool=self._background.pool,
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
            **probe_pages(self._background, self.facts),
        }
        if settings.getbool("MCP"):
            below["mcp"] = self._mcp_page(versions[-1], checks, services)
        below["openapi.json"] = OpenApiPage(
            versions,
            below,
            urls,
            services.capabilities,
            Retention.of(settings).most_days,
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
            connections_at_most(settings.getint("MAX_CONNECTIONS")),
            settings.getint("MAX_PEER_CONNECTIONS"),
            proxies,
        )
        return JsonSite(root, connections, self._background.traces)

    def _mcp_page(
        self, app: VersionApp, checks: RequestChecks, services: Services
    ) -> RootResource:
        from importlib.metadata import version

        from scraper_service.api.mcp.inner_calls import InnerCalls
        from scraper_service.api.mcp.server import (
            McpEndpoint,
            McpPage,
            McpServer,
            new_id,
        )
        from scraper_service.crawling.middlewares import Engines
        from scraper_service.services.capabilities import PACKAGE
        from scraper_service.storage.secrets import derive_key

        settings = self.settings
        engines = Engines.shared(settings)

        async def keep(request: JsonRequest, body: bytes) -> str:
            answer_id = new_id()
            team = await checks.find_team(request)
            await services.scraping.keep_answer(answer_id, body, team)
            return answer_id

        async def read(request: JsonRequest, answer_id: str) -> bytes | None:
            team = await checks.find_team(request)
            return await services.scraping.read_answer(answer_id, team)

        endpoint = McpEndpoint(
            server=McpServer(
                name=PACKAGE,
                version=version(PACKAGE),
                calls=InnerCalls("/v2", app.routes, app.wire_name),
                pool=self._background.pool,
                keep=keep,
                read=read,
                usual_tokens=settings.getint("MCP_MAX_TOKENS"),
                chosen=self._tools,
                has_browser=lambda: engines.missing is None,
                key=derive_key(self._key_secret(), "cursors of tools"),
                has_model=bool(settings["LLM_BASE_URL"]),
            ),
            checks=checks,
            origins=frozenset(settings.getlist("MCP_ORIGINS")),
            has_keys=settings.getbool("AUTH_ENABLED"),
        )
        return McpPage(app, endpoint)

    def facts(self) -> dict[str, Any]:
        """Return the members of ``/health`` of a ready service."""
        return {
            **self._background.facts(),
            "pendingMaps": self._background.maps.pending,
            "pendingScrapes": self.resident.pending,
            "pendingSearches": self._background.searches.pending,
            "watchers": self.watchers.count,
        }


def serve(settings: Settings, announce: AnnounceT) -> int:
    """Run the service until SIGTERM or SIGINT; return the exit code.

    Raises :exc:`ValueError` for invalid settings, and
    :exc:`~scraper_service.errors.DatabaseUnusable`.
    """
    from scraper_service.server.background import Background
    from scraper_service.services.observability.health import ServiceManager

    gc.disable()  # until it has started: few of the first objects are garbage
    manager = ServiceManager()
    background = Background(settings)
    return MainProcess(manager, background, ApiFront(background, announce)).run()
