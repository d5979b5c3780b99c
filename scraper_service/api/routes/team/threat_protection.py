"""The sites that a team lets its requests fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from scraper_service.api.openapi.route import Route
from scraper_service.api.requests.threat_protection import (
    TEAM_PROTECTION,
    team_protection,
)
from scraper_service.api.schemas import JsonObject, Maybe, Success, member, one_of
from scraper_service.api.version import Routes
from scraper_service.options.limits import KeyScope, Mode, SitePolicy
from scraper_service.options.requests.pages import ignored_names
from scraper_service.options.requests.values import LIST_MODES

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest


class _Policy(JsonObject):
    mode: Annotated[str, one_of(*LIST_MODES)]
    blacklist: list[str] = member(source=lambda policy: policy.rules.blacklist)
    whitelist: list[str] = member(source=lambda policy: policy.rules.whitelist)
    blocked_tlds: list[str] = member(source=lambda policy: policy.rules.blocked_tlds)
    allow_request_overrides: bool = member(source="allows_overrides")


class _Protection(Success):
    data: _Policy
    warning: Maybe[str]


class ThreatProtectionRoutes(Routes):
    """The threat protection of the caller's team."""

    @Route("GET /team/threat-protection", returns=_Protection)
    async def threat_protection(self, request: JsonRequest) -> bytes:
        """Return the sites that the team's requests may fetch."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        return _Protection.to_json(data=team.site_policy or SitePolicy())

    @Route(
        "PUT /team/threat-protection",
        scope=KeyScope.ADMIN,
        returns=_Protection,
        body=TEAM_PROTECTION,
        example={"mode": "manual-only", "blacklist": ["*.ads.example"]},
    )
    async def replace_threat_protection(self, request: JsonRequest) -> bytes:
        """Replace the sites that the team's requests may fetch."""
        team, body = await self.checks.admit(request, Mode.ACCOUNT)
        policy = await body.read(team_protection)
        warning = await body.warning(ignored_names(TEAM_PROTECTION.fields))
        await self.checks.accounts.set_site_policy(team, policy)
        return _Protection.to_json(data=policy, warning=warning)
