"""The sites that a team lets its requests fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.api.application import warned
from scraper_service.api.openapi.described import Described
from scraper_service.api.requests.threat_protection import (
    TEAM_PROTECTION,
    team_protection,
)
from scraper_service.api.responses import encode
from scraper_service.api.schemas import BOOL, TEXT, array, one_of, shape, success
from scraper_service.api.version import Routes
from scraper_service.options.limits import KeyScope, Mode, SitePolicy
from scraper_service.options.requests.pages import ignored_names
from scraper_service.options.requests.values import LIST_MODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT

_READ = success(
    {
        "data": shape(
            {
                "mode": one_of(*LIST_MODES),
                "blacklist": array(TEXT),
                "whitelist": array(TEXT),
                "blockedTlds": array(TEXT),
                "allowRequestOverrides": BOOL,
            }
        ),
        "warning?": TEXT,
    }
)


class ThreatProtectionRoutes(Routes):
    """The threat protection of the caller's team."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/team/threat-protection", KeyScope.READ, self.threat_protection),
            (
                "PUT",
                "/team/threat-protection",
                KeyScope.ADMIN,
                self.replace_threat_protection,
            ),
        )

    @Described(returns=_READ)
    async def threat_protection(self, request: JsonRequest) -> bytes:
        """Return the sites that the team's requests may fetch."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        return _answer(team.site_policy or SitePolicy())

    @Described(
        returns=_READ,
        body=TEAM_PROTECTION,
        example={"mode": "manual-only", "blacklist": ["*.ads.example"]},
    )
    async def replace_threat_protection(self, request: JsonRequest) -> bytes:
        """Replace the sites that the team's requests may fetch."""
        team, body = await self.checks.admit(request, Mode.ACCOUNT)
        policy = await body.read(team_protection)
        warning = await body.warning(ignored_names(TEAM_PROTECTION.fields))
        await self.checks.accounts.set_site_policy(team, policy)
        return _answer(policy, warning)


def _answer(policy: SitePolicy, warning: str | None = None) -> bytes:
    data = {
        "mode": policy.mode,
        "blacklist": policy.rules.blacklist,
        "whitelist": policy.rules.whitelist,
        "blockedTlds": policy.rules.blocked_tlds,
        "allowRequestOverrides": policy.allows_overrides,
    }
    return encode({"success": True, "data": data, **warned(warning)})
