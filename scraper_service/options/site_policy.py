"""The sites that a team lets its requests fetch, beside the rules of each request."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from attrs import asdict, evolve, field, frozen

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.scrape import SiteRules

OptionsT = TypeVar("OptionsT", bound=Any)

_NOT_ALLOWED = (
    "the policy of the team does not allow threatProtection in a request; it is allowed"
    " with allowRequestOverrides"
)


@frozen(kw_only=True)
class SitePolicy:
    """The threat protection of a team."""

    #: ``manual-only``, or ``off``: the lists are kept and have no effect.
    mode: str = "off"
    rules: SiteRules = field(factory=SiteRules)
    #: True lets a request replace lists by its own.
    allows_overrides: bool = False

    def rules_for(self, asked: SiteRules | None) -> SiteRules | None:
        """Return the rules of a request whose own rules are ``asked``.

        Its lists that are not empty replace those of the team. Raises
        :exc:`InvalidOptions` if it has lists and must not.
        """
        if self.mode == "off":
            return asked
        if asked is None:
            return self.rules
        if not self.allows_overrides:
            raise InvalidOptions([Issue("custom", ("threatProtection",), _NOT_ALLOWED)])
        return SiteRules(
            asked.blacklist or self.rules.blacklist,
            asked.whitelist or self.rules.whitelist,
            asked.blocked_tlds or self.rules.blocked_tlds,
        )


def under_policy(options: OptionsT, policy: SitePolicy | None) -> OptionsT:
    """Return the options of a request with the rules of its team."""
    if policy is None:
        return options
    changes: dict[str, Any] = {}
    if (scrape := options.scrape) is not None:
        rules = policy.rules_for(scrape.site_rules)
        changes["scrape"] = evolve(scrape, site_rules=rules)
    if hasattr(options, "site_rules"):  # of the results of a search
        changes["site_rules"] = policy.rules_for(options.site_rules)
    changed: OptionsT = evolve(options, **changes)
    return changed


def policy_to_json(policy: SitePolicy) -> str:
    """Return the text of a policy in the row of its team."""
    return json.dumps(asdict(policy))


def policy_from_json(text: str | None) -> SitePolicy | None:
    """Return the policy in the row of a team, None for a team without one."""
    if text is None:
        return None
    values = json.loads(text)
    lists = {name: tuple(found) for name, found in values.pop("rules").items()}
    return SitePolicy(rules=SiteRules(**lists), **values)
