"""What callers may use: calls, scopes, sites, retention, and what this service lacks.

The checks of options apply to every entrance: a valid option without effect is refused.
"""

from __future__ import annotations

import json
import shutil
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import asdict, evolve, field, frozen

from scraper_service.errors import InvalidOptions, Issue, OptionUnavailable
from scraper_service.options import formats
from scraper_service.options.formats import (
    ROW_OF,
    UPLOAD,
    Branding,
    ChangeTracking,
    Screenshot,
)
from scraper_service.options.jobs import MIN_DAYS, CrawlOptions
from scraper_service.options.parsing import short
from scraper_service.options.scrape import (
    CHANGE_WAIT_MS,
    DEFAULT_COUNTRY,
    GENERIC_COUNTRY,
    ScrapeOptions,
    SiteRules,
)
from scraper_service.options.urls import (
    caller_domain,
    caller_url,
    host_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scraper_service.options.jobs import BatchOptions

DAY_S = 86_400
HIDDEN = "retentionDays must be left out with zeroDataRetention, got {}"
OptionsT = TypeVar("OptionsT", bound=Any)

_NOT_ALLOWED = (
    "the policy of the team does not allow threatProtection in a request; it is allowed"
    " with allowRequestOverrides"
)


class Mode(StrEnum):
    """The classes of routes with separate rate limits (docs/api/README.md, Rate limits)."""

    SCRAPE = "scrape"
    CRAWL = "crawl"
    MAP = "map"
    EXTRACT = "extract"
    SEARCH = "search"
    CRAWL_STATUS = "crawlStatus"
    EXTRACT_STATUS = "extractStatus"
    ACCOUNT = "account"


class KeyScope(StrEnum):
    """What an API key may do. Each scope includes those before it."""

    #: Read jobs, pages, usage and settings of the team.
    READ = "read"
    #: Also start, change and cancel work.
    SCRAPE = "scrape"
    #: Also change the settings of the team, read its audit log and delete its jobs.
    ADMIN = "admin"

    def includes(self, other: KeyScope) -> bool:
        """Return True if a key with this scope may do what needs ``other``."""
        order = list(KeyScope)
        return order.index(self) >= order.index(other)


def parse_rates(entries: Iterable[str]) -> dict[str, int]:
    """Return calls per minute by mode from entries such as ``scrape=100``.

    0 is unlimited.

    :raises ValueError: with the invalid entry.
    """
    rates = {}
    for entry in entries:
        mode, _, number = entry.strip().partition("=")
        if mode not in set(Mode) or not (number.isascii() and number.isdigit()):
            raise ValueError(
                f"SCRAPER_RATE_LIMITS entry {entry!r} must be MODE=NUMBER, calls per minute,"
                f" 0 for unlimited; a mode is one of {', '.join(Mode)}"
            )
        rates[mode] = int(number)
    return rates


def parse_sites(entries: Iterable[str]) -> BlockedSites:
    """Return the blocked sites from host names.

    :raises ValueError: with the invalid entry.
    """
    hosts = set()
    for entry in filter(None, (entry.strip() for entry in entries)):
        try:
            hosts.add(caller_domain(entry.rstrip(".")))
        except ValueError:
            raise ValueError(
                f"SCRAPER_BLOCKED_SITES entry {entry!r} must be a host name, such as"
                " example.org, which stands for its subdomains too"
            ) from None
    return BlockedSites(hosts)


#: The languages that ``INTERACT_CODE`` can list.
NODE, PYTHON = "node", "python"


def parse_languages(entries: Iterable[str]) -> tuple[str, ...]:
    """Return the languages whose code callers may run, from ``INTERACT_CODE``.

    :raises ValueError: with the invalid entry.
    """
    given = [entry.strip().lower() for entry in entries]
    found = tuple(entry for entry in given if entry not in {"", "none"})
    for entry in found:
        if entry not in {NODE, PYTHON}:
            raise ValueError(
                f"SCRAPER_INTERACT_CODE must be none, or a list of {NODE} and {PYTHON},"
                f" got {entry!r}"
            )
    return found


class BlockedSites:
    """Hosts that are never fetched from, with their subdomains. It may be empty."""

    def __init__(self, hosts: Iterable[str] = ()):
        self._hosts = frozenset(hosts)

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def covers(self, url: str) -> bool:
        """Return True if an absolute URL belongs to a blocked site."""
        if not self._hosts:
            return False
        try:
            host = host_of(url)
            host = host if host.isascii() else caller_domain(host)
        except ValueError:
            return False  # such a URL cannot be fetched
        return self.covers_host(host)

    def covers_host(self, host: str) -> bool:
        """Return True for a blocked host or its subdomain, in ASCII and lower case."""
        while host and self._hosts:
            if host in self._hosts:
                return True
            _, _, host = host.partition(".")
        return False

    def first_of(self, urls: Iterable[object]) -> str | None:
        """Return the first URL of a blocked site, as the caller wrote it."""
        for url in urls if self._hosts else ():
            if not isinstance(url, str):
                continue
            try:
                if self.covers(caller_url(url)):
                    return url
            except ValueError:
                continue  # another check refuses the URL
        return None


@frozen
class Retention:
    """The settings ``RETENTION_DAYS`` and ``MAX_RETENTION_DAYS``."""

    usual_days: float
    most_days: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Retention:
        """Return the values of the settings of a service."""
        usual, most = settings["RETENTION_DAYS"], settings["MAX_RETENTION_DAYS"]
        return cls(float(usual), float(most))

    def seconds(self, days: float | None, *, is_zero: bool = False) -> float:
        """Return the life of results after their last change, for an option ``days``.

        None is the usual time. ``is_zero`` stands for zero data retention.

        :raises OptionUnavailable: for more days than allowed, or with zero retention.
        """
        if days is None:
            return self.usual_days * DAY_S
        if is_zero:
            raise OptionUnavailable("retention_days", HIDDEN.format(short(days)))
        if days > self.most_days:
            raise OptionUnavailable(
                "retention_days",
                f"retentionDays must be {MIN_DAYS} to {self.most_days:g}, got {short(days)}",
            )
        return days * DAY_S


@frozen(kw_only=True)
class SitePolicy:
    """The threat protection of a team."""

    #: ``manual-only``, or ``off``: the lists are kept and have no effect.
    mode: str = "off"
    rules: SiteRules = field(factory=SiteRules)
    #: True lets a request replace lists by its own.
    allows_overrides: bool = False

    def rules_for(self, own: SiteRules | None) -> SiteRules | None:
        """Return the rules of a request whose own rules are ``own``.

        Its lists that are not empty replace those of the team. Raises
        :exc:`InvalidOptions` if it has lists and must not.
        """
        if self.mode == "off":
            return own
        if own is None:
            return self.rules
        if not self.allows_overrides:
            raise InvalidOptions([Issue("custom", ("threatProtection",), _NOT_ALLOWED)])
        return SiteRules(
            own.blacklist or self.rules.blacklist,
            own.whitelist or self.rules.whitelist,
            own.blocked_tlds or self.rules.blocked_tlds,
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


# -- options that need a browser, a language model or another program, or no file ---------

HTTP = "http"
BROWSER = "browser"
PROFILE = "profile"  # the only such option that is dropped without a browser


def needs_browser(options: ScrapeOptions) -> str | None:
    """Return the name of an option that needs a browser, None if there is none.

    :data:`PROFILE` is returned only if no other option needs a browser.
    """
    if options.format(Screenshot):
        return "formats"
    for name in ("actions", "mobile", "session"):
        if getattr(options, name):
            return name
    # Change tracking sets this wait for rendered pages; the caller did not set it.
    tracked = options.format(ChangeTracking)
    is_automatic = tracked is not None and options.wait_for_ms == CHANGE_WAIT_MS
    if options.wait_for_ms and not is_automatic:
        return "wait_for_ms"
    return PROFILE if options.profile else None


def prefers_browser(options: ScrapeOptions) -> bool:
    """Return True if a browser gives better results: it reads style sheets."""
    return options.format(Branding) is not None


def why_not_rendered(options: ScrapeOptions, missing: str | None) -> str | None:
    """Return why no browser renders a page that came over HTTP, None if one may.

    ``missing`` is the reason why there is no browser, None if there is one.
    """
    if options.fast_mode:
        return "fastMode fetches pages over HTTP alone"
    if options.lockdown:
        return "lockdown takes stored responses as they are"
    return missing


def is_elsewhere(options: ScrapeOptions) -> bool:
    """Return True if the page is requested for another country than the default."""
    where = options.location
    return where is not None and where.country not in {DEFAULT_COUNTRY, GENERIC_COUNTRY}


NO_MODEL = (
    "it needs a language model, which the operator has not set up"
    " (SCRAPER_LLM_BASE_URL)"
)

NO_AGENT = (
    "The agent needs a language model, which the operator has not set up"
    " (SCRAPER_LLM_BASE_URL, SCRAPER_LLM_MODEL). Without a model, POST /v2/extract with"
    " enableWebSearch searches and reads pages."
)


def is_by_either(item: formats.Format) -> bool:
    """Return True if rules produce the format without a model, or after it failed."""
    if isinstance(item, formats.Json):
        return item.selectors is None
    if isinstance(item, formats.ChangeTracking):
        return item.selectors is None and "json" in item.modes
    return isinstance(item, formats.Summary)


def missing_model(settings: Mapping[str, Any]) -> str | None:
    """Return the reason why there is no language model, None if there is a model."""
    return None if settings["LLM_BASE_URL"] else NO_MODEL


def is_answered(item: formats.Format) -> bool:
    """Return True if a model produces the format, where there is a model."""
    return is_by_either(item) or ROW_OF[type(item)].by_model


def is_by_model(found: Iterable[formats.Format]) -> bool:
    """Return True if only a model produces the formats."""
    return all(ROW_OF[type(item)].by_model for item in found)


def asks_model(options: ScrapeOptions) -> bool:
    """Return True if a model reads the page, where there is a model."""
    return (
        options.only_clean_content
        or options.checks_injection
        or any(map(is_answered, options.formats))
    )


RECOGNISER = "tesseract"
NO_RECOGNISER = (
    "the PDF mode 'ocr' is not available here: it needs the program tesseract, "
    "which is not installed on this server"
)


def can_recognise_text() -> bool:
    """Return True if the program that recognises text in images is installed."""
    return shutil.which(RECOGNISER) is not None


_OF_A_BROWSER = {
    "actions": "an action",
    "formats": "format 'screenshot'",
    "mobile": "the mobile view",
    "session": "a session",
    "wait_for_ms": "waiting on a page",
}


def require_available(
    options: ScrapeOptions, browser: str | None = None, model: str | None = None
) -> None:
    """Check that every option can have an effect.

    ``browser`` is the reason why there is no browser, ``model`` why there is no language
    model; None if there is.

    :raises OptionUnavailable: for the first option that cannot.
    """
    for item in options.formats:
        if reason := ROW_OF[type(item)].missing:
            text = f"format {item.type!r} is not available here: {reason}"
            raise OptionUnavailable("formats", text)
    needed = needs_browser(options)
    if browser is not None and needed is not None and needed != PROFILE:
        raise OptionUnavailable(
            needed,
            f"{_OF_A_BROWSER[needed]} is not available here: {browser}",
            "SCRAPE_ACTIONS_NOT_SUPPORTED" if needed == "actions" else "BAD_REQUEST",
        )
    if model is not None:
        _require_no_model(options, model)
    pdf = options.pdf_parser
    if pdf is not None and pdf.mode == "ocr" and not can_recognise_text():
        raise OptionUnavailable("parsers", NO_RECOGNISER)


def _require_no_model(options: ScrapeOptions, reason: str) -> None:
    """Check that a page has a result without a model.

    The check for prompt injection is never left out, as it protects the caller.
    """
    if options.formats and is_by_model(options.formats):
        name = options.formats[0].type
        text = f"format {name!r} is not available here: {reason}"
        raise OptionUnavailable("formats", text)
    if options.check_prompt_injection:
        text = f"the check for prompt injection is not available here: {reason}"
        raise OptionUnavailable("check_prompt_injection", text)
    if options.checks_injection:
        text = f"the check for prompt injection is not available here: {reason}"
        raise OptionUnavailable("formats", text)


def require_job_available(
    options: CrawlOptions | BatchOptions,
    browser: str | None = None,
    model: str | None = None,
) -> None:
    """Check that every option of a job and of its pages can have an effect.

    ``browser`` and ``model`` are as in :func:`require_available`.

    :raises OptionUnavailable: for the first option that cannot.
    """
    try:
        require_available(options.scrape, browser, model)
    except OptionUnavailable as error:
        error.nested = isinstance(options, CrawlOptions)
        raise


def require_researchable(model: str | None) -> None:
    """Check that deep research can be done: a language model plans and writes it.

    ``model`` is as in :func:`require_available`.

    :raises OptionUnavailable: without a language model.
    """
    if model is not None:
        text = f"deep research is not available here: {model}"
        raise OptionUnavailable("query", text, "LANGUAGE_MODEL_REQUIRED")


def require_agent(model: str | None) -> None:
    """Check that an agent can run: a language model chooses its steps.

    ``model`` is as in :func:`require_available`.

    :raises OptionUnavailable: without a language model.
    """
    if model is not None:
        raise OptionUnavailable("prompt", NO_AGENT, "LANGUAGE_MODEL_REQUIRED")


# Options without a meaning for a file: attribute, name, test. See docs/api/scrape.md, Uploads.
_NOT_OF_FILES: tuple[tuple[str, str, Callable[[ScrapeOptions], bool]], ...] = (
    ("actions", "actions", lambda o: bool(o.actions)),
    ("wait_for_ms", "waitFor", lambda o: bool(o.wait_for_ms)),
    ("mobile", "mobile", lambda o: o.mobile),
    ("location", "location", lambda o: o.location is not None),
    ("proxy", "proxy 'stealth'", lambda o: o.proxy == "stealth"),
    ("session", "session", lambda o: o.session is not None),
    ("profile", "profile", lambda o: o.profile is not None),
)


def require_parseable(options: ScrapeOptions) -> None:
    """Check that every option has a meaning for an uploaded file.

    :raises OptionUnavailable: for the first option that has none.
    """
    code = "PARSE_UNSUPPORTED_OPTIONS"
    for attribute, what, is_set in _NOT_OF_FILES:
        if is_set(options):
            message = f"{what} cannot be used with an uploaded file"
            raise OptionUnavailable(attribute, message, code)
    for item in options.formats:
        if UPLOAD in (row := ROW_OF[type(item)]).not_of:
            message = f"format {row.name!r} cannot be made of an uploaded file"
            raise OptionUnavailable("formats", message, code)
