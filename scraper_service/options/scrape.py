"""How one page is scraped: frozen, version-free, without defaults.

Every entrance (each version of the API, the command line, spider arguments) supplies
its own defaults, so that none can differ silently. The rules are those of the
interface document, part 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, TypeAlias, TypeVar

from attrs import field, frozen
from attrs.validators import ge, in_, instance_of, le, optional

from scraper_service.errors import Issue
from scraper_service.options.actions import Action, Wait
from scraper_service.options.formats import (
    ChangeTracking,
    Format,
    Json,
    Markdown,
    RawBase64,
)

FormatT = TypeVar("FormatT")

OVERALL_TIMEOUT_MS = 300_000  # a scrape without a time-out of its own
LOAD_TIMEOUT_MS = 60_000  # loading one page without a time-out of its own
MAX_WAIT_MS = 60_000  # of the fixed wait and all waits among the actions together
MAX_ACTIONS = 50
MAX_PDF_PAGES = 10_000
CHANGE_WAIT_MS = 5000  # what a tracked page waits for whose caller chose no time
SELECTOR_WAIT_MS = 1000  # what a wait for a selector counts

DEFAULT_COUNTRY = "US"
GENERIC_COUNTRY = "US-generic"

# ISO 3166-1 alpha-2, and the user-assigned code of Kosovo
_CODES = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO
BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ
DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP
GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG
KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML
MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE
PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL
SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM
US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW
"""
COUNTRIES = frozenset(_CODES.split())

MAX_NAME = 64  # characters of that of a session or a profile
_SESSION_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LANGUAGE = re.compile(r"(\*|[A-Za-z0-9]{1,8}([-_][A-Za-z0-9]{1,8}){0,7})", re.ASCII)


def country_code(text: str) -> str:
    """Return a country as :class:`Location` keeps it; a ValueError for anything else."""
    if text.lower() == GENERIC_COUNTRY.lower():
        return GENERIC_COUNTRY
    if (code := text.upper()) not in COUNTRIES:
        raise ValueError(
            f"country must be an ISO 3166-1 alpha-2 code or {GENERIC_COUNTRY}, "
            f"got {text[:20]!r}"
        )
    return code


def language_tag(text: str) -> str:
    """Return ``text`` if it can stand in ``Accept-Language``, else a ValueError."""
    if not _LANGUAGE.fullmatch(text):
        raise ValueError(f"not a language tag: {text[:20]!r}")
    return text


def _each_language(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(language_tag(tag) for tag in tags)


@frozen(kw_only=True)
class PdfParser:
    """``mode`` is ``auto``, ``fast`` (text layer only) or ``ocr``.

    ``max_pages`` is 1...10000, None means all. ``pages``, ``blocks`` and
    ``page_markers`` ask for the text by page, by block with its place, and for marks
    between the pages of the Markdown.
    """

    type: ClassVar[str] = "pdf"
    mode: str = field(default="auto", validator=in_(("auto", "fast", "ocr")))
    max_pages: int | None = field(
        default=None, validator=optional([ge(1), le(MAX_PDF_PAGES)])
    )
    pages: bool = False
    blocks: bool = False
    page_markers: bool = False


@frozen
class ImageParser:
    """Text recognition in images."""

    type: ClassVar[str] = "image"


Parser: TypeAlias = PdfParser | ImageParser


@frozen
class Location:
    """``country`` is ISO 3166-1 alpha-2 in upper case or ``US-generic``.

    ``languages`` become ``Accept-Language``, best first.
    """

    country: str = field(converter=country_code)
    languages: tuple[str, ...] = field(default=(), converter=_each_language)


@frozen
class SiteRules:
    """Which sites the caller lets this scrape touch, redirects included.

    A domain stands for itself and its subdomains; a top-level domain has no dot.
    ``whitelist`` wins over the two others.
    """

    blacklist: tuple[str, ...] = ()
    whitelist: tuple[str, ...] = ()
    blocked_tlds: tuple[str, ...] = ()

    def allows(self, host: str) -> bool:
        """Tell whether ``host`` (lower case, no port) may be fetched."""
        if any(_below(host, domain) for domain in self.whitelist):
            return True
        return not any(
            _below(host, domain) for domain in (*self.blacklist, *self.blocked_tlds)
        )


def profile_name(text: str) -> str:
    """Return ``text`` if a profile may have it as its name, else a ValueError."""
    if not (0 < len(text) <= MAX_NAME and text.isprintable()):
        raise ValueError(
            f"a profile's name must have 1 to {MAX_NAME} printable characters,"
            f" got {text[:70]!r}"
        )
    return text


@frozen
class Profile:
    """A named browser profile: the session of that name, changed or only read."""

    name: str = field(validator=lambda _, __, text: profile_name(text))
    save_changes: bool = True


def session_name(text: str) -> str:
    """Return ``text`` if a session may have it as its name, else a ValueError."""
    if not _SESSION_NAME.fullmatch(text):
        raise ValueError(
            "a session's name must have 1 to 64 letters, digits, dots, dashes or"
            f" underscores, got {text[:70]!r}"
        )
    return text


def _is_session_name(_: object, __: object, text: str) -> None:
    session_name(text)


@frozen(kw_only=True)
class ScrapeOptions:
    """Everything a caller can set for one page.

    Times are milliseconds; ``timeout_ms`` None means :data:`LOAD_TIMEOUT_MS` for
    loading and :data:`OVERALL_TIMEOUT_MS` for all. ``headers`` are pairs in the order
    given. ``max_age_ms`` 0 always fetches; ``min_age_ms`` answers from the cache only.
    ``include_tags`` and ``exclude_tags`` are CSS selectors. ``session`` names cookies and
    storage of the team, which the page starts with and may change; so does ``profile``,
    which may forbid to change them.
    """

    formats: tuple[Format, ...] = field(converter=tuple)
    headers: tuple[tuple[str, str], ...]
    include_tags: tuple[str, ...] = field(converter=tuple)
    exclude_tags: tuple[str, ...] = field(converter=tuple)
    only_main_content: bool = field(validator=instance_of(bool))
    only_clean_content: bool = field(validator=instance_of(bool))
    timeout_ms: int | None = field(validator=optional([ge(1), le(OVERALL_TIMEOUT_MS)]))
    wait_for_ms: int = field(validator=[ge(0), le(MAX_WAIT_MS)])
    mobile: bool = field(validator=instance_of(bool))
    parsers: tuple[Parser, ...] = field(converter=tuple)
    actions: tuple[Action, ...] = field(converter=tuple)
    location: Location | None
    skip_tls_verification: bool = field(validator=instance_of(bool))
    remove_base64_images: bool = field(validator=instance_of(bool))
    fast_mode: bool = field(validator=instance_of(bool))
    block_ads: bool = field(validator=instance_of(bool))
    proxy: str = field(validator=in_(("auto", "basic", "stealth")))
    max_age_ms: int = field(validator=ge(0))
    min_age_ms: int | None = field(validator=optional(ge(0)))
    store_in_cache: bool = field(validator=instance_of(bool))
    lockdown: bool = field(validator=instance_of(bool))
    zero_data_retention: bool = field(validator=instance_of(bool))
    site_rules: SiteRules | None
    profile: Profile | None
    # Jobs that were stored by earlier releases have none.
    session: str | None = field(default=None, validator=optional(_is_session_name))
    check_prompt_injection: bool = field(default=False, validator=instance_of(bool))

    def format(self, kind: type[FormatT]) -> FormatT | None:
        """Return the requested format of class ``kind``, None if not requested."""
        return next((f for f in self.formats if isinstance(f, kind)), None)

    @property
    def extracts(self) -> bool:
        """Whether data are made of the page by a schema or a prompt."""
        changes = self.format(ChangeTracking)
        return bool(self.format(Json) or (changes and "json" in changes.modes))

    @property
    def storage(self) -> str | None:
        """The name of the cookies and storage to begin with, None for none."""
        return self.session or (self.profile.name if self.profile else None)

    @property
    def saves_storage(self) -> bool:
        """Whether what the page changes of them is kept."""
        if self.profile is not None:
            return self.profile.save_changes
        return self.session is not None

    @property
    def reads_images(self) -> bool:
        """Whether the text in images is asked for."""
        return any(isinstance(parser, ImageParser) for parser in self.parsers)

    @property
    def pdf_parser(self) -> PdfParser | None:
        """The PDF parser asked for, None when PDF files are delivered as they are."""
        return next((p for p in self.parsers if isinstance(p, PdfParser)), None)

    @property
    def is_shared(self) -> bool:
        """Whether the page is the same for everybody of the team, and may be kept."""
        return self.store_in_cache and not (
            self.headers or self.actions or self.storage or self.zero_data_retention
        )

    @property
    def checks_injection(self) -> bool:
        """Whether a page that gives orders to language models is to be refused."""
        return self.check_prompt_injection or any(
            isinstance(item, Json) and item.check_prompt_injection
            for item in self.formats
        )

    @property
    def deadline_ms(self) -> int:
        """Time from the request to the answer: time-out and asked-for waits."""
        waits = sum(a.milliseconds or 0 for a in self.actions if isinstance(a, Wait))
        return (self.timeout_ms or OVERALL_TIMEOUT_MS) + self.wait_for_ms + waits

    @property
    def load_timeout_ms(self) -> int:
        """Time for one page to load, redirects included."""
        return self.timeout_ms or LOAD_TIMEOUT_MS


@frozen
class Rule:
    """What must hold between options; ``message`` names them in braces."""

    attribute: str
    message: str
    holds: Callable[[ScrapeOptions], bool]


RULES = (
    Rule(
        "wait_for_ms",
        "{wait_for_ms} must not exceed half of {timeout_ms}",
        lambda o: o.timeout_ms is None or 2 * o.wait_for_ms <= o.timeout_ms,
    ),
    Rule(
        "actions",
        f"{{actions}} must have at most {MAX_ACTIONS} items",
        lambda o: len(o.actions) <= MAX_ACTIONS,
    ),
    Rule(
        "actions",
        f"{{wait_for_ms}} and all waits of {{actions}} must not exceed {MAX_WAIT_MS} ms; "
        f"a wait for a selector counts {SELECTOR_WAIT_MS}",
        lambda o: o.wait_for_ms + _waits_ms(o.actions) <= MAX_WAIT_MS,
    ),
    Rule(
        "profile",
        "{profile} and {session} must have the same name, as both are the same store",
        lambda o: not (o.session and o.profile) or o.session == o.profile.name,
    ),
    Rule(
        "formats",
        "the format {change_tracking} needs the format {markdown} beside it",
        lambda o: not o.format(ChangeTracking) or o.format(Markdown) is not None,
    ),
    Rule(
        "formats",
        "the format {raw_base64} allows no other format beside it",
        lambda o: not o.format(RawBase64) or len(o.formats) == 1,
    ),
)


def broken_rules(
    options: ScrapeOptions, spell: Callable[[str], str] = str
) -> tuple[Issue, ...]:
    """Return an issue for each of :data:`RULES` that ``options`` break.

    ``spell`` turns the name of an attribute or format into the caller's spelling.
    """

    def spelled(match: re.Match[str]) -> str:
        return spell(match[1])

    return tuple(
        Issue(
            "custom",
            (spell(rule.attribute),),
            re.sub(r"\{(\w+)\}", spelled, rule.message),
        )
        for rule in RULES
        if not rule.holds(options)
    )


def _waits_ms(actions: tuple[Action, ...]) -> int:
    waits = [a for a in actions if isinstance(a, Wait)]
    return sum(a.milliseconds or SELECTOR_WAIT_MS for a in waits)


def _below(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
