"""The options of a page: one frozen class, the same for all versions, without defaults.

Names in requests, defaults and ranges stand in :mod:`scraper_service.options.catalogue`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import ClassVar, TypeAlias, TypeVar

from attrs import evolve, field, frozen
from attrs.validators import ge, in_, instance_of, le, optional

from scraper_service.errors import Issue
from scraper_service.options.actions import Action, ScrollToEnd, Wait
from scraper_service.options.formats import (
    REFUSED,
    ROW_OF,
    ChangeTracking,
    Format,
    Json,
    Markdown,
    RawBase64,
)

DEFAULT_COUNTRY = "US"
GENERIC_COUNTRY = "US-generic"

_LANGUAGE = re.compile(r"(\*|[A-Za-z0-9]{1,8}([-_][A-Za-z0-9]{1,8}){0,7})", re.ASCII)
# The likely language of each country (Unicode CLDR, likelySubtags). Countries: ISO 3166-1
# alpha-2, and the user-assigned code of Kosovo.
_TABLE = """
af NA; ak GH; am ET; ar AE BH DZ EG EH IQ JO KM KW LB LY MA MR OM PS QA SA SD SS SY TD
TN YE; az AZ; be BY; bg BG; bi VU; bm ML; bn BD; bs BA; ca AD; cs CZ; da DK; de AT CH
DE LI; dv MV; dz BT; el CY GR; en AG AI AQ AU BB BM BS BW BZ CA CK CX DM FJ FK FM GB
GD GG GI GM GS GU GY HM IE IM IO JE JM KI KN KY LC LR MH MP MS MW NF NG NR NU NZ PN SB
SG SH SL SX SZ TC TT UM US VC VG VI ZA ZM; es AR BO CL CO CR CU DO EC ES GQ GT HN MX
NI PA PE PR SV UY VE; et EE; fa AF IR; fi FI; fil PH; fo FO; fr BF BJ BL CD CG CI CM
DJ FR GA GF GN GP LU MC MF MQ MU NC PF PM RE SC TF TG WF YT; gn PY; ha NE; he IL; hi
IN; hr HR; ht HT; hu HU; hy AM; id ID; is IS; it IT SM VA; ja JP; ka GE; kl GL; km KH;
ko KP KR; ky KG; lo LA; lt LT; lv LV; mg MG; mk MK; mn MN; ms BN CC MY; mt MT; my MM;
nb NO SJ; ne NP; nl AW BE NL SR; no BV; pap BQ CW; pau PW; pl PL; pt AO BR CV GW MZ PT
ST TL; rn BI; ro MD RO; ru KZ RU; rw RW; sg CF; si LK; sk SK; sl SI; sm AS WS; sn ZW;
so SO; sq AL XK; sr ME RS; st LS; sv AX SE; sw KE TZ UG; tg TJ; th TH; ti ER; tk TM;
tkl TK; to TO; tpi PG; tr TR; tvl TV; uk UA; ur PK; uz UZ; vi VN; wo SN; zh CN HK MO
TW
"""
LANGUAGES: dict[str, str] = {
    country: language
    for language, *countries in map(str.split, _TABLE.split(";"))
    for country in countries
}
# Where the first zone of the table of zones is not that of most people.
_MAIN_ZONES = {
    "AU": "Australia/Sydney",
    "BR": "America/Sao_Paulo",
    "CA": "America/Toronto",
    "FM": "Pacific/Pohnpei",
    "RU": "Europe/Moscow",
    "UA": "Europe/Kyiv",
    "UM": "Pacific/Wake",
    "XK": "Europe/Belgrade",
}


@cache
def time_zones() -> dict[str, str]:
    """Return the zone of most people of each country: the first of IANA's zone.tab."""
    found: dict[str, str] = {}
    table = files("tzdata") / "zoneinfo" / "zone.tab"
    for line in table.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            country, _, zone, *_ = line.split("\t")
            found.setdefault(country, zone)
    return {**dict.fromkeys(LANGUAGES, "UTC"), **found, **_MAIN_ZONES}


def accept_language(tags: tuple[str, ...]) -> str:
    """Return ``Accept-Language`` for languages in the order of preference, or ""."""
    weights = (max(0.1, 1 - number / 10) for number in range(len(tags)))
    return ",".join(
        tag if weight == 1 else f"{tag};q={weight:.1f}"
        for tag, weight in zip(tags, weights, strict=True)
    )


def country_code(text: str) -> str:
    """Return a country in the form of :class:`Location`, else raise ValueError."""
    if text.lower() == GENERIC_COUNTRY.lower():
        return GENERIC_COUNTRY
    if (code := text.upper()) not in LANGUAGES:
        raise ValueError(
            f"country must be an ISO 3166-1 alpha-2 code or {GENERIC_COUNTRY}, "
            f"got {text[:20]!r}"
        )
    return code


def language_tag(text: str) -> str:
    """Return ``text`` if it is valid in ``Accept-Language``, else raise ValueError."""
    if not _LANGUAGE.fullmatch(text):
        raise ValueError(f"not a language tag: {text[:20]!r}")
    return text


def _each_language(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(language_tag(tag) for tag in tags)


@frozen
class Location:
    """The country and the languages of the visitor."""

    #: ISO 3166-1 alpha-2 in upper case, or ``US-generic``.
    country: str = field(converter=country_code)
    #: The value of ``Accept-Language``, in the order of preference.
    languages: tuple[str, ...] = field(default=(), converter=_each_language)


FormatT = TypeVar("FormatT")

OVERALL_TIMEOUT_MS = 300_000  # of a scrape without a time-out
LOAD_TIMEOUT_MS = 60_000  # of loading a page without a time-out
MAX_WAIT_MS = 60_000  # of the fixed wait and all waits among the actions together
MAX_ACTIONS = 50
MAX_PDF_PAGES = 10_000
MIN_TOKENS = 100  # of a part of the Markdown
CHANGE_WAIT_MS = 5000  # the wait of change tracking if the caller sets none
SELECTOR_WAIT_MS = 1000  # the time that a wait for a selector counts

MAX_NAME = 128  # characters of the name of a profile
SESSION_NAME = "^[A-Za-z0-9._-]{1,64}$"


@frozen(kw_only=True)
class PdfParser:
    """The conversion of PDF files."""

    type: ClassVar[str] = "pdf"
    #: ``auto``, ``fast`` (text layer only) or ``ocr``.
    mode: str = field(default="auto", validator=in_(("auto", "fast", "ocr")))
    #: 1 to 10,000; None converts all pages.
    max_pages: int | None = field(
        default=None, validator=optional([ge(1), le(MAX_PDF_PAGES)])
    )
    #: True adds the text of each page.
    pages: bool = False
    #: True adds blocks of text with their positions.
    blocks: bool = False
    #: True adds marks between the pages of the Markdown.
    page_markers: bool = False


@frozen
class ImageParser:
    """Text recognition in images."""

    type: ClassVar[str] = "image"


Parser: TypeAlias = PdfParser | ImageParser


@frozen
class SiteRules:
    """The sites that a scrape may fetch, redirects included.

    A host stands for itself alone, ``*.host`` for all its subdomains.
    """

    blacklist: tuple[str, ...] = ()
    #: Wins over the two others.
    whitelist: tuple[str, ...] = ()
    #: Top-level domains without a dot.
    blocked_tlds: tuple[str, ...] = ()
    #: If there are any, no other host may be fetched. No request sets them.
    only: tuple[str, ...] = ()

    def allows(self, host: str) -> bool:
        """Return True if ``host`` (lower case, no port) may be fetched."""
        return (not self.only or host in self.only) and self.allows_part(host)

    def allows_part(self, host: str) -> bool:
        """Return True if an image, script or frame of a page may come from ``host``."""
        if any(_covers(pattern, host) for pattern in self.whitelist):
            return True
        tlds = (f"*.{tld}" for tld in self.blocked_tlds)
        return not any(_covers(pattern, host) for pattern in (*self.blacklist, *tlds))


def profile_name(text: str) -> str:
    """Return ``text`` if it is a valid name of a profile, else raise ValueError."""
    if not (0 < len(text) <= MAX_NAME and text.isprintable()):
        raise ValueError(
            f"a profile's name must have 1 to {MAX_NAME} printable characters,"
            f" got {text[:70]!r}"
        )
    return text


@frozen
class Profile:
    """A named browser profile: the session of that name, which may be read-only."""

    name: str = field(validator=lambda _, __, text: profile_name(text))
    save_changes: bool = True


def session_name(text: str) -> str:
    """Return ``text`` if it is a valid name of a session, else raise ValueError."""
    if not re.fullmatch(SESSION_NAME, text):
        raise ValueError(
            "a session's name must have 1 to 64 letters, digits, dots, dashes or"
            f" underscores, got {text[:70]!r}"
        )
    return text


def _is_session_name(_: object, __: object, text: str) -> None:
    session_name(text)


EMAIL, PHONE, FINANCIAL, SECRET = "EMAIL", "PHONE", "FINANCIAL", "SECRET"
ENTITIES_BY_RULES = (EMAIL, PHONE, FINANCIAL, SECRET)
REDACTION_MODES = ("accurate", "aggressive", "fast")
REDACTION_STYLES = ("tag", "mask", "remove")


@frozen
class RedactPii:
    """The personal data to replace in the texts of a page."""

    mode: str = field(default="accurate", validator=in_(REDACTION_MODES))
    #: Some of :data:`ENTITIES_BY_RULES`; None for all of them.
    entities: tuple[str, ...] | None = None
    replace_style: str = field(default="tag", validator=in_(REDACTION_STYLES))

    @property
    def replaced(self) -> tuple[str, ...]:
        """The entities that are replaced."""
        return ENTITIES_BY_RULES if self.entities is None else self.entities


@frozen(kw_only=True)
class ScrapeOptions:
    """The options of one page."""

    formats: tuple[Format, ...] = field(converter=tuple)
    #: Names and values in the order of the request.
    headers: tuple[tuple[str, str], ...]
    #: CSS selectors.
    include_tags: tuple[str, ...] = field(converter=tuple)
    exclude_tags: tuple[str, ...] = field(converter=tuple)
    only_main_content: bool = field(validator=instance_of(bool))
    only_clean_content: bool = field(validator=instance_of(bool))
    #: None is :data:`LOAD_TIMEOUT_MS` for loading, :data:`OVERALL_TIMEOUT_MS` for all.
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
    #: 0 always fetches.
    max_age_ms: int = field(validator=ge(0))
    #: Not None returns stored pages only.
    min_age_ms: int | None = field(validator=optional(ge(0)))
    store_in_cache: bool = field(validator=instance_of(bool))
    lockdown: bool = field(validator=instance_of(bool))
    zero_data_retention: bool = field(validator=instance_of(bool))
    site_rules: SiteRules | None
    profile: Profile | None
    #: The name of the team's cookies and storage, which the page starts with and changes.
    # Jobs that earlier releases stored have no session.
    session: str | None = field(default=None, validator=optional(_is_session_name))
    check_prompt_injection: bool = field(default=False, validator=instance_of(bool))
    #: The most tokens of a part of the Markdown; None for the whole.
    max_tokens: int | None = field(default=None, validator=optional(ge(MIN_TOKENS)))
    #: Which part, from 1; None for the first.
    page: int | None = field(default=None, validator=optional(ge(1)))
    redact_pii: RedactPii | None = None

    def format(self, kind: type[FormatT]) -> FormatT | None:
        """Return the requested format of class ``kind``, None if it is not requested."""
        return next((f for f in self.formats if isinstance(f, kind)), None)

    @property
    def extracts(self) -> bool:
        """Whether the page is extracted by a JSON Schema or a prompt."""
        return any(item.selectors is None for item in self._data_formats)

    @property
    def selects(self) -> bool:
        """Whether data are read by selectors."""
        return any(item.selectors is not None for item in self._data_formats)

    @property
    def _data_formats(self) -> Iterator[Json | ChangeTracking]:
        """The formats with data."""
        for item in self.formats:
            if isinstance(item, Json) or (
                isinstance(item, ChangeTracking) and "json" in item.modes
            ):
                yield item

    @property
    def storage(self) -> str | None:
        """The name of the cookies and storage to start with, None for none."""
        return self.session or (self.profile.name if self.profile else None)

    @property
    def saves_storage(self) -> bool:
        """Whether changes of the cookies and the storage are stored."""
        if self.profile is not None:
            return self.profile.save_changes
        return self.session is not None

    @property
    def reads_images(self) -> bool:
        """Whether the text in images is requested."""
        return any(isinstance(parser, ImageParser) for parser in self.parsers)

    @property
    def pdf_parser(self) -> PdfParser | None:
        """The requested PDF parser, None if PDF files are returned as they are."""
        return next((p for p in self.parsers if isinstance(p, PdfParser)), None)

    @property
    def accepts_copies(self) -> bool:
        """Whether a stored response is as good as a new one, if it is new enough."""
        return not (
            self.headers
            or self.actions
            or self.zero_data_retention
            or self.storage
            or self.proxy == "stealth"
            or self.format(ChangeTracking) is not None
        )

    @property
    def as_made(self) -> ScrapeOptions:
        """What a page is made by: the options without times, which do not change it."""
        return evolve(self, max_age_ms=0, timeout_ms=None)

    @property
    def is_shared(self) -> bool:
        """Whether the page is the same for the whole team and may be stored."""
        return self.store_in_cache and not (
            self.headers or self.actions or self.storage or self.zero_data_retention
        )

    @property
    def checks_injection(self) -> bool:
        """Whether pages with instructions to language models are refused."""
        return self.check_prompt_injection or any(
            isinstance(item, Json) and item.check_prompt_injection
            for item in self.formats
        )

    @property
    def deadline_ms(self) -> int:
        """Time from the request to the response: the time-out and all waits."""
        return (self.timeout_ms or OVERALL_TIMEOUT_MS) + self.waits_ms

    @property
    def waits_ms(self) -> int:
        """Time of all waits, which the page gets in addition to its time-out."""
        return self.wait_for_ms + sum(_wait_ms(each) or 0 for each in self.actions)

    @property
    def load_timeout_ms(self) -> int:
        """Time for one page to load, redirects included."""
        return self.timeout_ms or LOAD_TIMEOUT_MS


@frozen
class OptionRule:
    """A rule between options. ``message`` has their names in braces."""

    attribute: str
    message: str
    is_met: Callable[[ScrapeOptions], bool]


_SHOWN = [f"{{{row.tag}}}" for row in ROW_OF.values() if row.personal_data == REFUSED]
RULES = (
    OptionRule(
        "wait_for_ms",
        "{wait_for_ms} must not exceed half of {timeout_ms}",
        lambda o: o.timeout_ms is None or 2 * o.wait_for_ms <= o.timeout_ms,
    ),
    OptionRule(
        "actions",
        f"{{actions}} must have at most {MAX_ACTIONS} items",
        lambda o: len(o.actions) <= MAX_ACTIONS,
    ),
    OptionRule(
        "actions",
        f"{{wait_for_ms}} and all waits of {{actions}} must not exceed {MAX_WAIT_MS} ms; "
        f"a wait for a selector counts {SELECTOR_WAIT_MS}, a scrollToEnd its timeout",
        lambda o: o.wait_for_ms + _waits_ms(o.actions) <= MAX_WAIT_MS,
    ),
    OptionRule(
        "profile",
        "{profile} and {session} must have the same name, as both are the same store",
        lambda o: not (o.session and o.profile) or o.session == o.profile.name,
    ),
    OptionRule(
        "page",
        "{page} needs {max_tokens} as well",
        lambda o: o.page is None or o.max_tokens is not None,
    ),
    OptionRule(
        "max_tokens",
        "{max_tokens} needs the format {markdown}",
        lambda o: o.max_tokens is None or o.format(Markdown) is not None,
    ),
    OptionRule(
        "formats",
        "the format {change_tracking} needs the format {markdown} as well",
        lambda o: not o.format(ChangeTracking) or o.format(Markdown) is not None,
    ),
    OptionRule(
        "redact_pii",
        f"{{redact_pii}} allows none of the formats {', '.join(_SHOWN[:-1])} and"
        f" {_SHOWN[-1]}: they would show what is replaced elsewhere",
        lambda o: (
            o.redact_pii is None
            or not any(ROW_OF[type(f)].personal_data == REFUSED for f in o.formats)
        ),
    ),
    OptionRule(
        "formats",
        "{prompt} must be left out with {selectors}: the data are exact or of a model",
        lambda o: not any(f.prompt and f.selectors for f in _with_selectors(o)),
    ),
    OptionRule(
        "formats",
        "{selectors} of the format {change_tracking} need the mode 'json'",
        lambda o: (
            not any(
                f.selectors and "json" not in f.modes
                for f in _with_selectors(o)
                if isinstance(f, ChangeTracking)
            )
        ),
    ),
    OptionRule(
        "formats",
        "the format {raw_base64} allows no other format",
        lambda o: not o.format(RawBase64) or len(o.formats) == 1,
    ),
)


def broken_rules(
    options: ScrapeOptions, spell: Callable[[str], str] = str
) -> tuple[Issue, ...]:
    """Return an issue for each broken rule of :data:`RULES`.

    ``spell`` returns the caller's spelling of the name of an attribute or format.
    """

    def spell_name(match: re.Match[str]) -> str:
        return spell(match[1])

    return tuple(
        Issue(
            "custom",
            (spell(rule.attribute),),
            re.sub(r"\{(\w+)\}", spell_name, rule.message),
        )
        for rule in RULES
        if not rule.is_met(options)
    )


def _with_selectors(options: ScrapeOptions) -> Iterator[Json | ChangeTracking]:
    """Yield the formats that may have selectors."""
    return (f for f in options.formats if isinstance(f, Json | ChangeTracking))


def _waits_ms(actions: tuple[Action, ...]) -> int:
    waits = [each for each in actions if isinstance(each, Wait | ScrollToEnd)]
    return sum(_wait_ms(each) or SELECTOR_WAIT_MS for each in waits)


def _wait_ms(action: Action) -> int | None:
    """Return how long an action may wait, None for no time of its own."""
    if isinstance(action, ScrollToEnd):
        return action.timeout_ms
    return action.milliseconds if isinstance(action, Wait) else None


def _covers(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern[0] == "*" else host == pattern
