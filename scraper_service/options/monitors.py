"""Monitors: their targets, their schedules, and what they do not count as a change.

The targets are scrape, crawl and search. A schedule is a cron expression, or words that
stand for it. The option ``compare`` of a target leaves parts out of comparisons.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from attrs import field, fields_dict, frozen
from attrs.validators import ge, in_, le, max_len, min_len
from cronsim import CronSim, CronSimError

from scraper_service.options.formats import (
    ChangeTracking,
    Format,
    Json,
    Markdown,
)
from scraper_service.options.jobs import (
    BatchOptions,
    CrawlOptions,
    structure,
    unstructure,
)
from scraper_service.options.parsing import short
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_FIELDS = 100
MAX_PATTERNS = 20
MAX_CHARACTERS = 100_000
MAX_TARGETS = 50
MAX_URLS = 1000  # of a target
MAX_QUERIES = 12
MAX_QUERY = 256  # characters
MAX_RESULTS = 50
MAX_DOMAINS = 50
#: Seconds of each ``searchWindow``.
WINDOWS: Mapping[str, int] = {
    "5m": 300,
    "15m": 900,
    "1h": 3600,
    "6h": 6 * 3600,
    "24h": 86_400,
    "7d": 7 * 86_400,
}
MODES = ("markdown", "json", "mixed")
MIN_GAP = 5  # minutes between two run times
LOOKED_AT_DAYS = 4 * 366 + 1  # for days in a row: each date occurs in them
FOLD = timedelta(hours=3)  # the longest repetition of local times, with a margin
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
# The names are those of cronsim.
FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, as far as the month has them",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT",
}
DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MINUTES = (5, 6, 10, 12, 15, 20, 30)
HOURS = (2, 3, 4, 6, 8, 12)
FORMS = (
    "every N minutes",
    "every N minutes starting at :MM",
    "hourly",
    "every N hours",
    "daily [at T]",
    "every day [at T]",
    "weekly [on DAY] [at T]",
    "every DAY [at T]",
    "weekdays [at T]",
    "monthly [at T]",
)
_NAME = r"(?:\d{1,2}|[A-Z]{3})"
_ITEM = re.compile(rf"(?:\*|({_NAME})(?:-({_NAME}))?)(?:/(\d{{1,4}}))?")
_TIME = r"(\d{1,2})(?::(\d{2}))? ?(am|pm)?"
_DAY = "|".join(DAYS)


@frozen(kw_only=True)
class FieldRule:
    """When another value of a field of the data counts as a change."""

    #: The path, such as ``plans[0].price``; ``plans[].price`` stands for each index.
    path: str
    #: True for a field that never counts.
    ignore: bool = False
    #: The least difference of two numbers, 0 for any.
    min_difference: float = field(default=0, validator=ge(0))
    #: The same in percent of the previous number.
    min_percent: float = field(default=0, validator=ge(0))


@frozen(kw_only=True)
class Compare:
    """What is left out of a comparison. Diffs show it all the same."""

    #: Regular expressions (RE2) of text that does not count.
    ignore_patterns: tuple[str, ...] = field(
        default=(), validator=max_len(MAX_PATTERNS)
    )
    ignore_numbers: bool = False
    ignore_dates: bool = False
    #: The least number of characters that differ, 0 for any.
    min_characters: int = field(default=0, validator=ge(0))
    fields: tuple[FieldRule, ...] = field(default=(), validator=max_len(MAX_FIELDS))

    @property
    def cleans(self) -> bool:
        """Whether a part of the text does not count."""
        return bool(self.ignore_patterns or self.ignore_numbers or self.ignore_dates)


@frozen(kw_only=True)
class ScrapeTarget:
    """URLs that are scraped."""

    type: ClassVar[str] = "scrape"
    charges_itself: ClassVar[bool] = False

    id: str
    urls: tuple[str, ...] = field(validator=[min_len(1), max_len(MAX_URLS)])
    scrape: ScrapeOptions
    #: What is compared: one of :data:`MODES`.
    mode: str = field(validator=in_(MODES))
    compare: Compare = field(factory=Compare)

    @property
    def max_pages(self) -> int:
        return len(self.urls)

    @property
    def fixed_urls(self) -> tuple[str, ...]:
        return self.urls

    def job(self) -> BatchOptions:
        return BatchOptions(
            urls=self.urls, scrape=self.scrape, max_concurrency=None, webhook=None
        )

    def as_members(self) -> dict[str, Any]:
        return {"urls": list(self.urls)}


@frozen(kw_only=True)
class CrawlTarget:
    """A site that is crawled."""

    type: ClassVar[str] = "crawl"
    charges_itself: ClassVar[bool] = True
    fixed_urls: ClassVar[None] = None

    id: str
    crawl: CrawlOptions
    mode: str = field(validator=in_(MODES))
    compare: Compare = field(factory=Compare)

    @property
    def max_pages(self) -> int:
        return self.crawl.limit

    @property
    def scrape(self) -> ScrapeOptions:
        return self.crawl.scrape

    def job(self) -> CrawlOptions:
        return self.crawl

    def as_members(self) -> dict[str, Any]:
        return {}


@frozen(kw_only=True)
class SearchTarget:
    """Queries whose new results are reported."""

    type: ClassVar[str] = "search"
    charges_itself: ClassVar[bool] = False
    scrape: ClassVar[None] = None
    fixed_urls: ClassVar[None] = None

    id: str
    queries: tuple[str, ...] = field(validator=[min_len(1), max_len(MAX_QUERIES)])
    window: str = field(default="24h", validator=in_(WINDOWS))
    #: Results of one check, over all queries.
    max_results: int = field(default=10, validator=[ge(1), le(MAX_RESULTS)])
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()

    @property
    def max_pages(self) -> int:
        return self.max_results

    def job(self) -> None:
        return None

    def as_members(self) -> dict[str, Any]:
        return {
            "queries": list(self.queries),
            "searchWindow": self.window,
            "maxResults": self.max_results,
        }


TargetT: TypeAlias = ScrapeTarget | CrawlTarget | SearchTarget
TARGETS: Mapping[str, type[TargetT]] = {
    kind.type: kind for kind in (ScrapeTarget, CrawlTarget, SearchTarget)
}


def target_to_json(target: TargetT) -> dict[str, Any]:
    """Return a target as JSON values for :func:`target_from_json`."""
    return {"type": target.type, **unstructure(target)}


def target_from_json(value: Mapping[str, Any]) -> TargetT:
    """Return the target from the JSON values of :func:`target_to_json`."""
    values = dict(value)
    if "compare" in values:  # earlier versions had keys that are gone
        known = fields_dict(Compare)
        compare = {k: v for k, v in values["compare"].items() if k in known}
        values["compare"] = compare
    return structure(values, TARGETS[values.pop("type")])


def monitored_formats(given: tuple[Format, ...]) -> tuple[tuple[Format, ...], str]:
    """Return the formats of a monitored page, and the mode of its comparison.

    Markdown is always made. ``changeTracking`` stands for what is compared: its data come
    from the format ``json``, because a monitor compares with snapshots of its own. Raises
    :exc:`ValueError`.
    """
    tracking = next((f for f in given if isinstance(f, ChangeTracking)), None)
    formats = [f for f in given if not isinstance(f, ChangeTracking)]
    if not any(isinstance(f, Markdown) for f in formats):
        formats.append(Markdown())
    if tracking is None or "json" not in tracking.modes:
        return tuple(formats), "markdown"
    data = next((f for f in formats if isinstance(f, Json)), None)
    wanted = (tracking.prompt, tracking.schema, tracking.selectors)
    if any(each is not None for each in wanted):
        if data is None:
            prompt, schema, selectors = wanted
            formats.append(Json(prompt=prompt, schema=schema, selectors=selectors))
        elif (data.prompt, data.schema, data.selectors) != wanted:
            raise ValueError(
                "changeTracking and json must have the same schema, prompt and selectors,"
                " or one of them none: a page has one json"
            )
    elif data is None:
        raise ValueError(
            "changeTracking with the mode json needs a schema, a prompt, selectors, or the format json"
            " as well"
        )
    return tuple(formats), "mixed" if "git-diff" in tracking.modes else "json"


@frozen
class Schedule:
    """When a monitor runs: five cron fields, in the local time of an IANA zone."""

    cron: str
    timezone: str = "UTC"

    def next_after(self, at: float) -> float:
        """Return the first run time after ``at``, in seconds since 1970."""
        zone = ZoneInfo(self.timezone)
        start = datetime.fromtimestamp(at, zone).replace(tzinfo=None)
        for local in CronSim(self.cron, start):
            found = _instant(local, zone)
            if found > at:
                return found
        raise AssertionError(self.cron)  # checked_cron refuses what never matches

    def last_until(self, at: float) -> float:
        """Return the last run time that is not after ``at``."""
        zone = ZoneInfo(self.timezone)
        start = datetime.fromtimestamp(at, zone).replace(tzinfo=None, microsecond=0)
        for local in CronSim(self.cron, start + FOLD, reverse=True):
            found = _instant(local, zone)
            if found <= at:
                return found
        raise AssertionError(self.cron)

    def count(self, at: float, days: int) -> int:
        """Return the number of run times in ``days`` days from ``at``.

        Clock changes are left out of account.
        """
        zone = ZoneInfo(self.timezone)
        start = datetime.fromtimestamp(at, zone).replace(tzinfo=None)
        return _count(self.cron, start.replace(second=0, microsecond=0), days)


@lru_cache(maxsize=4096)
def _count(cron: str, start: datetime, days: int) -> int:
    fields, end = _read(cron), start + timedelta(days=days)
    times = sorted(
        60 * hour + minute for hour in fields.hours for minute in fields.minutes
    )
    found = 0
    for number in range(days + 1):
        day = start.date() + timedelta(days=number)
        if not _runs_on(fields, day):
            continue
        if 0 < number < days:
            found += len(times)
            continue
        first = 60 * start.hour + start.minute if number == 0 else -1
        last = 60 * end.hour + end.minute if number == days else 24 * 60
        found += sum(first < time <= last for time in times)
    return found


def _instant(local: datetime, zone: ZoneInfo) -> float:
    """Return the instant of a local time: the first one, or that after a gap."""
    while True:
        found = local.replace(tzinfo=zone)
        if found.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == local:
            return found.timestamp()
        local += timedelta(minutes=1)


def check_zone(name: str) -> str:
    """Return the name of a time zone of the IANA, else raise a ValueError."""
    if name not in _zones():
        raise ValueError(
            f"timezone must be a name of the IANA such as Europe/Berlin, got {short(name)}"
        )
    return name


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def normalize_cron(text: str) -> str:
    """Return a cron expression of five fields in capitals, else raise a ValueError."""
    text = MACROS.get(text.strip().lower(), text)
    fields = text.upper().split()
    if len(fields) != 5:
        raise ValueError(
            "cron must have the five fields minute, hour, day of month, month and day of"
            f" week, or be one of {', '.join(MACROS)}, got {short(text)}"
        )
    cron = " ".join(
        ",".join(_item(item, text) for item in f.split(",")) for f in fields
    )
    try:
        found = _read(cron)
        next(CronSim(cron, datetime(2023, 1, 1)))  # a local time
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        raise ValueError(
            f"cron is not valid: {field} takes {FIELDS[field]}, steps above 0 and"
            f" ranges that rise, got {short(text)}"
        ) from None
    except StopIteration:
        raise ValueError(f"cron never matches, got {short(text)}") from None
    if (gap := _shortest_gap(found)) < MIN_GAP:
        raise ValueError(
            f"cron must leave at least {MIN_GAP} minutes between two run times,"
            f" got {short(text)} with {gap}"
        )
    return cron


def _item(item: str, text: str) -> str:
    found = _ITEM.fullmatch(item)
    if found is None:
        raise ValueError(
            "cron takes numbers, names such as MON, and the signs * , - / only (no L, W, #"
            f" and ?), got {short(text)}"
        )
    # cronsim reads a range of one number as the start of an open range.
    return found[1] if found[1] and found[1] == found[2] else item


def _read(cron: str) -> CronSim:
    return CronSim(cron, datetime(2023, 1, 1))  # a local time


def _runs_on(fields: CronSim, day: date) -> bool:
    return day.month in fields.months and fields.match_day(day)


def _shortest_gap(fields: CronSim) -> int:
    """Return the minutes of the shortest gap between two run times."""
    times = sorted(
        60 * hour + minute for hour in fields.hours for minute in fields.minutes
    )
    gaps = [later - earlier for earlier, later in pairwise(times)]
    over_night = times[0] + 24 * 60 - times[-1]
    if over_night < MIN_GAP and _has_neighbours(fields):
        gaps.append(over_night)
    return min(gaps, default=24 * 60)


def _has_neighbours(fields: CronSim) -> bool:
    """Return True if two days in a row have run times."""
    before, day = False, date(2023, 1, 1)
    for _ in range(LOOKED_AT_DAYS):
        runs = _runs_on(fields, day)
        if runs and before:
            return True
        before, day = runs, day + timedelta(days=1)
    return False


# -- words -----------------------------------------------------------------------------


def cron_of_text(text: str, spread: int) -> str:
    """Return the cron expression that words stand for, else raise a ValueError.

    ``spread`` is any number >= 0 of the monitor. It moves times that the words leave open,
    so that monitors do not all run at once.
    """
    words = " ".join(text.lower().split())
    for pattern, make in _PATTERNS:
        if (found := pattern.fullmatch(words)) is not None:
            return make(found, spread)
    raise ValueError(f"text must be one of {', '.join(FORMS)}; got {short(text)}")


def _minutes(found: re.Match[str], spread: int) -> str:
    number = int(found[1])
    start = None if found[2] is None else int(found[2])
    if start is not None and start > 59:
        raise ValueError(f"text must name a minute from :00 to :59, got :{start}")
    if number == 60:
        return f"{spread % 60 if start is None else start} * * * *"
    if number not in MINUTES:
        raise ValueError(_others(number, MINUTES, "minutes", "60"))
    first = (spread if start is None else start) % number
    return f"{first}-59/{number} * * * *" if first else f"*/{number} * * * *"


def _hours(found: re.Match[str], spread: int) -> str:
    number = int(found[1])
    if number in {1, 24}:
        return _hourly(found, spread) if number == 1 else _at("", spread, "* * *")
    if number not in HOURS:
        raise ValueError(_others(number, HOURS, "hours", "1 and 24"))
    first = spread // 60 % number
    return f"{spread % 60} {first}-23/{number} * * *"


def _others(number: int, allowed: tuple[int, ...], unit: str, more: str) -> str:
    nearest = min(allowed, key=lambda each: (abs(each - number), each))
    names = ", ".join(map(str, allowed))
    return (
        f"text: every {number} {unit} is not possible, the nearest is every {nearest}"
        f" {unit}; allowed are {names} and {more}"
    )


def _hourly(_: re.Match[str], spread: int) -> str:
    return f"{spread % 60} * * * *"


def _at(time: str | None, spread: int, days: str) -> str:
    """Return the expression for a time of day; without one, a time of ``spread``."""
    if not time:
        return f"{spread % 60} {spread // 60 % 24} {days}"
    found = re.fullmatch(_TIME, time)
    assert found is not None
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    is_bare = found[2] is None and half is None
    is_wrong = not 1 <= hour <= 12 if half else hour > 23
    if is_bare or is_wrong or minute > 59:
        raise ValueError(
            f"text must name a time such as 9:00, 21:30, 9am or 5:30 PM, got {short(time)}"
        )
    if half:
        hour = hour % 12 + 12 * (half == "pm")
    return f"{minute} {hour} {days}"


def _daily(days: str) -> Callable[[re.Match[str], int], str]:
    return lambda found, spread: _at(found["time"], spread, days)


def _weekly(found: re.Match[str], spread: int) -> str:
    name = found["day"]
    day = spread // 1440 % 7 if name is None else DAYS.index(name)
    return _at(found["time"], spread, f"* * {day}")


def _patterns() -> Iterator[
    tuple[re.Pattern[str], Callable[[re.Match[str], int], str]]
]:
    at = r"(?: at (?P<time>\d{1,2}(?::\d{2})? ?(?:am|pm)?))?"
    for text, make in (
        (r"every (\d{1,4}) minutes?(?: starting at :(\d{2}))?", _minutes),
        (r"hourly|every hour", _hourly),
        (r"every (\d{1,4}) hours?", _hours),
        (rf"(?:daily|every day){at}", _daily("* * *")),
        (rf"weekly(?: on (?P<day>{_DAY}))?{at}", _weekly),
        (rf"every (?P<day>{_DAY}){at}", _weekly),
        (rf"(?:every )?weekdays?{at}", _daily("* * 1-5")),
        (rf"monthly{at}", _daily("1 * *")),
    ):
        yield re.compile(text), make


_PATTERNS = tuple(_patterns())
