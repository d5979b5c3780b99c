"""The routes of /v2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.api.routes import crawl_preview
from scraper_service.api.routes.agent import AgentRoutes
from scraper_service.api.routes.browser_sessions import BrowserSessionRoutes
from scraper_service.api.routes.crawl_preview import CrawlPreviewRoutes
from scraper_service.api.routes.crawl_report import CrawlReportRoutes
from scraper_service.api.routes.exports import ExportRoutes
from scraper_service.api.routes.feedback import FeedbackRoutes
from scraper_service.api.routes.job_control import JobControlRoutes
from scraper_service.api.routes.job_history import JobHistoryRoutes
from scraper_service.api.routes.jobs import JobRoutes
from scraper_service.api.routes.monitors import MonitorRoutes
from scraper_service.api.routes.operations import ExtractRoutes
from scraper_service.api.routes.pages import PageRoutes
from scraper_service.api.routes.search import SearchRoutes
from scraper_service.api.routes.team.audit import AuditRoutes
from scraper_service.api.routes.team.team import SessionRoutes, TeamRoutes
from scraper_service.api.routes.team.threat_protection import ThreatProtectionRoutes
from scraper_service.api.routes.uploads import FileRoutes
from scraper_service.api.routes.webhook_deliveries import WebhookDeliveryRoutes
from scraper_service.api.routing import VersionApp
from scraper_service.api.v2 import responses
from scraper_service.api.version import Api
from scraper_service.options.requests import body_v2 as requests

if TYPE_CHECKING:
    from scraper_service.api.application import RequestChecks
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.api.streams.streaming import Watchers
    from scraper_service.api.version import Routes, Services

ROUTES = (
    PageRoutes,
    FileRoutes,
    SearchRoutes,
    FeedbackRoutes,
    JobRoutes,
    ExportRoutes,
    JobHistoryRoutes,
    JobControlRoutes,
    CrawlReportRoutes,
    CrawlPreviewRoutes,
    WebhookDeliveryRoutes,
    ExtractRoutes,
    AgentRoutes,
    MonitorRoutes,
    BrowserSessionRoutes,
    TeamRoutes,
    SessionRoutes,
    ThreatProtectionRoutes,
    AuditRoutes,
)


class V2(VersionApp):
    """Version 2 of the API, with ``further`` groups of routes."""

    def __init__(
        self,
        checks: RequestChecks,
        services: Services,
        watchers: Watchers,
        urls: PublicUrls,
        further: tuple[type[Routes], ...] = (),
    ):
        api = Api(
            version=2,
            requests=requests,
            responses=responses,
            checks=checks,
            services=services,
            watchers=watchers,
            urls=urls,
            prompted=crawl_preview.prompted,
        )
        super().__init__(api, (*ROUTES, *further))
