"""The two versions of the API: their routes, and how each reads and writes JSON."""

from __future__ import annotations

from scraper_service.api import responses_v1, responses_v2
from scraper_service.api.requests import v1
from scraper_service.api.routes.browser_sessions import (
    BrowserSessionRoutes,
    SessionRoutes,
)
from scraper_service.api.routes.crawl_report import CrawlReportRoutes
from scraper_service.api.routes.exports import ExportRoutes
from scraper_service.api.routes.extract_and_agents import (
    AgentRoutes,
    DeepResearchRoutes,
    ExtractRoutes,
    LlmsTextRoutes,
)
from scraper_service.api.routes.feedback import FeedbackRoutes
from scraper_service.api.routes.files import FileRoutes
from scraper_service.api.routes.job_history import JobHistoryRoutes
from scraper_service.api.routes.jobs import (
    CrawlPreviewRoutes,
    JobControlRoutes,
    JobRoutes,
)
from scraper_service.api.routes.monitors import MonitorRoutes
from scraper_service.api.routes.pages import PageRoutes, SearchRoutes
from scraper_service.api.routes.team import (
    AuditRoutes,
    CapabilityRoutes,
    TeamRoutes,
    ThreatProtectionRoutes,
)
from scraper_service.api.routes.webhook_deliveries import WebhookDeliveryRoutes
from scraper_service.api.routing import VersionApp
from scraper_service.options import v2_requests


class V1(VersionApp):
    """Version 1 of the API."""

    version = 1
    requests = v1
    responses = responses_v1
    groups = (
        PageRoutes,
        SearchRoutes,
        JobRoutes,
        ExtractRoutes,
        LlmsTextRoutes,
        DeepResearchRoutes,
        TeamRoutes,
    )


class V2(VersionApp):
    """Version 2 of the API."""

    version = 2
    requests = v2_requests
    responses = responses_v2
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
        CapabilityRoutes,
        ThreatProtectionRoutes,
        AuditRoutes,
    )
