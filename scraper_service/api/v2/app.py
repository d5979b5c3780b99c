"""The routes of /v2."""

from __future__ import annotations

from scraper_service.api.routes import crawl_preview
from scraper_service.api.routes.browser_sessions import BrowserSessionRoutes
from scraper_service.api.routes.crawl_preview import CrawlPreviewRoutes
from scraper_service.api.routes.crawl_report import CrawlReportRoutes
from scraper_service.api.routes.exports import ExportRoutes
from scraper_service.api.routes.feedback import FeedbackRoutes
from scraper_service.api.routes.job_history import JobHistoryRoutes
from scraper_service.api.routes.jobs import JobControlRoutes, JobRoutes
from scraper_service.api.routes.monitors import MonitorRoutes
from scraper_service.api.routes.operations import AgentRoutes, ExtractRoutes
from scraper_service.api.routes.pages import PageRoutes, SearchRoutes
from scraper_service.api.routes.team import (
    AuditRoutes,
    SessionRoutes,
    TeamRoutes,
    ThreatProtectionRoutes,
)
from scraper_service.api.routes.uploads import FileRoutes
from scraper_service.api.routes.webhook_deliveries import WebhookDeliveryRoutes
from scraper_service.api.routing import VersionApp
from scraper_service.api.v2 import responses
from scraper_service.options.requests import body_v2 as requests


class V2(VersionApp):
    """Version 2 of the API."""

    version = 2
    requests = requests
    responses = responses
    prompted = staticmethod(crawl_preview.apply_prompt)
    groups = (
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
