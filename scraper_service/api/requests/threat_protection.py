"""The body of ``PUT /v2/team/threat-protection``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.options.limits import SitePolicy
from scraper_service.options.parsing import BodyReader, Bool, Key, Object
from scraper_service.options.scrape import SiteRules
from scraper_service.options.wire.values import THREAT_PROTECTION

if TYPE_CHECKING:
    from scraper_service.options.parsing import Position


def _policy(values: dict[str, Any], at: Position) -> Any:
    allows_overrides = values.pop("allows_overrides", False)
    mode = values.get("mode", "off")
    rules = THREAT_PROTECTION.make(values, at)  # reports a mode that scans
    if rules is not None and not isinstance(rules, SiteRules):
        return rules
    return SitePolicy(
        mode=mode, rules=rules or SiteRules(), allows_overrides=allows_overrides
    )


TEAM_PROTECTION = Object(
    {
        **THREAT_PROTECTION.fields,
        "allowRequestOverrides": Key(
            Bool(),
            "allows_overrides",
            help="Let requests replace the lists by their own.",
        ),
    },
    _policy,
)


team_protection = BodyReader[SitePolicy](
    __name__, "team_protection", TEAM_PROTECTION, "body (v2)"
)
