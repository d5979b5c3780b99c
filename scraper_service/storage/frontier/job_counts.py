"""What a job counts for its report: delivered pages and their texts, and requests by host.

Counts of statuses, verdicts, losses and filled fields are JSON in the row of the job, and
change in the transaction of each page. So a report reads one row, however many pages the job
has. The log of texts is a table that all processes share and that survives a restart. Each
process builds its own :class:`Repeats` of it. Processes add their requests by host, the
robots.txt files that they have read, and the stats of Scrapy from time to time.

Functions run inside a transaction. Functions that write lock the job first.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import asdict, define, field, frozen
from sqlalchemy import bindparam, func, select

from scraper_service.content.words import distance
from scraper_service.items import UNCHANGED
from scraper_service.storage.job_records import RowState
from scraper_service.storage.schema import (
    frontier,
    job,
    job_host,
    job_robots,
    job_stat,
    page_text,
)
from scraper_service.storage.transactions import (
    Insertion,
    number_of,
    transaction,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.options.json_schema import Field
    from scraper_service.storage.job_records import CountedPage

MAX_NAMES = 100  # of one part; the row of the job is written with each page
MAX_LEVELS = 3  # of nested fields
MAX_FIELD_NAME = 200  # characters
MAX_DATA_BYTES = 2**20  # of the data of a page; the fields of more are not counted
OTHERS = "others"  # all statuses, depths, verdicts and fields beyond

MAX_TEXTS = 20_000  # remembered pages of a job
MAX_HOSTS = 100  # with remembered blocks
LEARNT_PAGES = 20  # of a host, to learn its repeated blocks from
LEAST_PAGES = 4  # with a block, before the block counts as repeated
LEAST_SHARE = 0.5  # of the learnt pages
MAX_DISTANCE = 3  # bits between fingerprints of nearly equal texts
READ_ROWS = 1000
_BANDS = tuple(range(0, 64, 16))  # with at most 3 different bits, one band is equal

_READ = (
    select(page_text)
    .where(
        page_text.c.job_number == number_of(bindparam("job_id")),
        page_text.c.id > bindparam("last"),
    )
    .order_by(page_text.c.id)
    .limit(READ_ROWS)
)
_ADD = Insertion(page_text, "job_number", "host", "url", "fingerprint", "blocks")


@frozen(kw_only=True)
class PageCounts:
    """How many delivered pages have a status, a depth, a verdict or a filled field."""

    #: All counted pages: those that were delivered since the job has such counts.
    pages: int = 0
    statuses: Mapping[str, int] = field(factory=dict)
    #: By the number of links from the start.
    depths: Mapping[str, int] = field(factory=dict)
    verdicts: Mapping[str, int] = field(factory=dict)
    #: Pages with data by a schema or prompt.
    with_data: int = 0
    #: Pages whose data has a value there, by name; ``a.b`` is a property of an object.
    fields: Mapping[str, int] = field(factory=dict)
    #: By kind of ``metadata.losses``, how many ``pages`` have one, and their sum as
    #: ``count``.
    losses: Mapping[str, Mapping[str, int]] = field(factory=dict)


_NOTHING = json.dumps(asdict(PageCounts()))


def parse_counts(stored: str | None) -> PageCounts:
    """Return the counts in the row of a job."""
    return PageCounts(**_values(stored))


def add_pages(stored: str | None, pages: Iterable[CountedPage]) -> str:
    """Return the counts of the row of a job with further ``pages``."""
    known = _values(stored)
    for page in pages:
        known["pages"] += 1
        _count(known["statuses"], str(page.status or 0))
        _count(known["depths"], str(page.depth))
        _count(known["verdicts"], page.verdict or "unknown")
        for kind, count in page.losses.items():
            lost = known["losses"].setdefault(kind, {"pages": 0, "count": 0})
            lost["pages"] += 1
            lost["count"] += count
        if page.data is None:
            continue
        known["with_data"] += 1
        if len(page.data) <= MAX_DATA_BYTES:
            for name in dict.fromkeys(_filled_fields(json.loads(page.data))):
                _count(known["fields"], name)
    return json.dumps(known, separators=(",", ":"))


def _values(stored: str | None) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(stored or _NOTHING)
    return values


def _count(part: dict[str, int], name: str) -> None:
    if name not in part and len(part) >= MAX_NAMES:
        name = OTHERS
    part[name] = part.get(name, 0) + 1


def _filled_fields(value: Any, above: str = "", level: int = 1) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for key, each in value.items():
        if each is None or each in ("", [], {}):
            continue
        name = f"{above}{key}"[:MAX_FIELD_NAME]
        yield name
        if level < MAX_LEVELS:
            yield from _filled_fields(each, f"{name}.", level + 1)


def with_empty_fields(counts: PageCounts, schema: Field | None) -> dict[str, int]:
    """Return the filled fields, and all fields of the schema of the job, in its order."""
    names = [] if schema is None else list(_names(schema))[:MAX_NAMES]
    return dict.fromkeys(names, 0) | dict(Counter(counts.fields).most_common())


def _names(schema: Field, above: str = "", level: int = 1) -> Iterator[str]:
    for each in schema.properties:
        name = f"{above}{each.name}"[:MAX_FIELD_NAME]
        yield name
        if level < MAX_LEVELS:
            yield from _names(each, f"{name}.", level + 1)


def count_unchanged(connection: Connection, job_id: str) -> int:
    """Return the number of pages of a crawl that were the same as in its base.

    Reads only the index of codes, however many pages there are.
    """
    query = select(func.count()).where(
        frontier.c.job_number == number_of(job_id),
        frontier.c.state == RowState.DONE,
        frontier.c.code == UNCHANGED,
    )
    return connection.scalar(query) or 0


@frozen
class DeliveredText:
    """The text of a delivered page."""

    host: str
    url: str
    #: Fingerprint of the Markdown, 0 for too little text.
    fingerprint: int
    #: Hashes of the blocks, empty once the repeated blocks of the host are learnt.
    blocks: tuple[int, ...] = ()
    #: Position in the log, 0 before it is stored.
    id: int = 0


def texts_after(connection: Connection, job_id: str, last: int) -> list[DeliveredText]:
    """Return up to :data:`READ_ROWS` texts of a job after the position ``last``."""
    rows = connection.execute(_READ, {"job_id": job_id, "last": last})
    return [
        DeliveredText(
            row.host, row.url, row.fingerprint % 2**64, _unpack(row.blocks), row.id
        )
        for row in rows
    ]


def add_texts(
    connection: Connection, job_number: int, texts: Iterable[DeliveredText]
) -> None:
    """Store texts of pages, in the transaction that delivers the pages."""
    rows = [
        {
            "job_number": job_number,
            "host": text.host,
            "url": text.url,
            "fingerprint": _to_signed(text.fingerprint),
            "blocks": struct.pack(f"<{len(text.blocks)}q", *text.blocks),
        }
        for text in texts
    ]
    _ADD.run_many(connection, rows)


class Repeats:
    """The texts of the delivered pages of a job, as far as this process has read them.

    A text only counts as repeated if delivered pages contain it.
    """

    def __init__(self) -> None:
        self.last = 0
        self._texts: list[DeliveredText] = []
        self._near: dict[tuple[int, int], list[int]] = {}
        self._pages: Counter[str] = Counter()
        self._blocks: dict[str, Counter[int]] = {}

    @property
    def is_full(self) -> bool:
        """True if no further page is remembered."""
        return len(self._texts) >= MAX_TEXTS

    def add(self, texts: Sequence[DeliveredText]) -> None:
        """Add texts from the log. Ignores texts that are already known."""
        for text in texts:
            if text.id <= self.last:
                continue
            self.last = text.id
            if text.fingerprint:
                for band in _BANDS:
                    key = band, text.fingerprint >> band & 0xFFFF
                    self._near.setdefault(key, []).append(len(self._texts))
            self._texts.append(text)
            if text.blocks and self.learns(text.host):
                self._pages[text.host] += 1
                blocks = self._blocks.setdefault(text.host, Counter())
                blocks.update(set(text.blocks))

    def learns(self, host: str) -> bool:
        """Return True if the blocks of further pages of ``host`` are needed."""
        pages = self._pages.get(host)
        if pages is None:
            return len(self._pages) < MAX_HOSTS
        return pages < LEARNT_PAGES

    def repeated_blocks(self, host: str, blocks: Iterable[int]) -> set[int]:
        """Return the blocks that the pages of ``host`` repeat."""
        known = self._blocks.get(host)
        if known is None:
            return set()
        least = max(LEAST_PAGES, LEAST_SHARE * self._pages[host])
        return {block for block in blocks if known[block] >= least}

    def original(self, fingerprint: int) -> str | None:
        """Return the URL of the first page with nearly the same text."""
        if not fingerprint:
            return None
        near = {
            number
            for band in _BANDS
            for number in self._near.get((band, fingerprint >> band & 0xFFFF), ())
        }
        return next(
            (
                self._texts[number].url
                for number in sorted(near)
                if distance(fingerprint, self._texts[number].fingerprint)
                <= MAX_DISTANCE
            ),
            None,
        )


def _to_signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _unpack(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)


KEPT_SECONDS = 10  # of a host, until the counts of all processes have arrived


class Delay(NamedTuple):
    """A delay of requests."""

    #: Number of delayed requests.
    times: int
    longest_s: float


class Share(NamedTuple):
    """The requests of one process in one second."""

    #: Requests that began.
    begun: int
    #: The largest number of requests in flight.
    in_flight: int


@define
class HostCounts:
    """The requests of a job to one host. Counts of several processes add up."""

    requests: int = 0
    bytes: int = 0
    #: Sum of the waits of requests for the host.
    wait_s: float = 0.0
    #: The most requests that began in one second.
    peak_rate: int = 0
    #: Over several processes, exact to a second.
    peak_in_flight: int = 0
    #: Counts by status, ``timeout`` and ``failed``.
    answers: Counter[str] = field(factory=Counter)
    #: Reductions of the pace by status, ``timeout`` and ``latency``.
    backoffs: Counter[str] = field(factory=Counter)
    #: By source of the delay.
    delays: dict[str, Delay] = field(factory=dict)
    #: Shares by second since 1970 and process.
    seconds: dict[int, dict[str, Share]] = field(factory=dict)

    def add(self, other: HostCounts) -> None:
        """Add the counts of ``other``."""
        self.requests += other.requests
        self.bytes += other.bytes
        self.wait_s += other.wait_s
        self.peak_rate = max(self.peak_rate, other.peak_rate)
        self.peak_in_flight = max(self.peak_in_flight, other.peak_in_flight)
        self.answers.update(other.answers)
        self.backoffs.update(other.backoffs)
        for source, (times, longest_s) in other.delays.items():
            self.add_delay(source, times, longest_s)
        for second, shares in other.seconds.items():
            for process, share in shares.items():
                self.add_share(second, process, share)
        for second in sorted(self.seconds)[:-KEPT_SECONDS]:
            del self.seconds[second]

    def add_delay(self, source: str, times: int, longest_s: float) -> None:
        known = self.delays.get(source, Delay(0, 0.0))
        longest_s = max(known.longest_s, longest_s)
        self.delays[source] = Delay(known.times + times, longest_s)

    def add_share(self, second: int, process: str, share: Share) -> None:
        shares = self.seconds.setdefault(second, {})
        known = shares.get(process, Share(0, 0))
        in_flight = max(known.in_flight, share.in_flight)
        shares[process] = Share(known.begun + share.begun, in_flight)
        begun, in_flight = map(sum, zip(*shares.values(), strict=True))
        self.peak_rate = max(self.peak_rate, begun)
        self.peak_in_flight = max(self.peak_in_flight, in_flight)

    def facts(self) -> str:
        """Return the counts without a column of their own, as JSON."""
        facts = {name: getattr(self, name) for name in FACTS}
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def from_row(cls, row: Row[Any]) -> HostCounts:
        """Return the counts of a row of hosts."""
        found = json.loads(row.facts)
        return cls(
            **{name: row._mapping[name] for name in NUMBERS},
            answers=Counter(found["answers"]),
            backoffs=Counter(found["backoffs"]),
            delays={name: Delay(*value) for name, value in found["delays"].items()},
            seconds={
                int(second): {name: Share(*share) for name, share in shares.items()}
                for second, shares in found["seconds"].items()
            },
        )


#: Attributes of :class:`HostCounts` with a column, and those without.
NUMBERS = ("requests", "bytes", "wait_s", "peak_rate", "peak_in_flight")
FACTS = ("answers", "backoffs", "delays", "seconds")


@frozen
class RobotsSeen:
    """The robots.txt of a site, as a job has read it."""

    state: str
    detail: str
    #: The group that applies, in lower case, ``*`` for all, None without a group.
    agent: str | None
    #: As written in the robots.txt.
    crawl_delay_s: float | None


@frozen
class Tallied:
    """New counts for the database."""

    #: By pace key of the host.
    hosts: dict[str, HostCounts]
    #: By URL of the robots.txt.
    robots: dict[str, RobotsSeen]
    #: By name of a Scrapy stat, how much it has grown.
    stats: dict[str, float]

    def __bool__(self) -> bool:
        return bool(self.hosts or self.robots or self.stats)


REPORTED_HOSTS = 1000  # in one report
HOST_ROWS = 500  # in one statement
MAX_URL = 300  # characters; the URL of a robots.txt is shorter
MAX_TEXT = 500


@frozen
class RobotsRow:
    """A robots.txt, with the number of the job's URLs that it refuses."""

    url: str
    #: None if the job fetched no page of the site, and knows its rules from another job.
    seen: RobotsSeen | None
    refused: int


@transaction(row="{job_id}")
def add_requests(connection: Connection, job_id: str, tallied: Tallied) -> None:
    """Add the counts of a process. Ignores a job that is gone."""
    lock = select(job.c.id).where(job.c.id == job_id).with_for_update()
    if connection.scalar(lock) is None:
        return
    names = list(tallied.hosts)
    for first in range(0, len(names), HOST_ROWS):
        part = names[first : first + HOST_ROWS]
        stored = read_hosts(connection, job_id, part)
        rows = []
        for name in part:
            counts = stored.get(name, HostCounts())
            counts.add(tallied.hosts[name])
            numbers = {column: getattr(counts, column) for column in NUMBERS}
            facts = {**numbers, "facts": counts.facts()}
            rows.append({"job_id": job_id, "host": name, **facts})
        upsert(connection, job_host, rows)
    robots = [
        {
            "job_id": job_id,
            "url": url[:MAX_URL],
            "state": seen.state,
            "detail": seen.detail[:MAX_TEXT],
            "agent": seen.agent and seen.agent[:MAX_TEXT],
            "crawl_delay_s": seen.crawl_delay_s,
        }
        for url, seen in tallied.robots.items()
    ]
    upsert(connection, job_robots, robots)
    stats = [
        {"job_id": job_id, "name": name, "value": value}
        for name, value in tallied.stats.items()
    ]
    upsert(connection, job_stat, stats, adds="value")


def read_hosts(
    connection: Connection, job_id: str, names: list[str] | None = None
) -> dict[str, HostCounts]:
    """Return the counts of hosts, without names of those with the most requests."""
    columns = job_host.c
    query = select(job_host).where(columns.job_id == job_id)
    if names is None:
        query = query.order_by(columns.requests.desc(), columns.host).limit(
            REPORTED_HOSTS
        )
    else:
        query = query.where(columns.host.in_(names))
    return {row.host: HostCounts.from_row(row) for row in connection.execute(query)}


def read_stats(connection: Connection, job_id: str) -> dict[str, float]:
    """Return the Scrapy stats of a job by name, whole numbers as integers."""
    columns = job_stat.c
    query = select(columns.name, columns.value).where(columns.job_id == job_id)
    return {
        name: int(value) if value.is_integer() else round(value, 3)
        for name, value in connection.execute(query.order_by(columns.name))
    }


def add_refused(
    connection: Connection, job_id: str, refused: Mapping[str, int]
) -> None:
    """Count refused URLs by the URL of their robots.txt.

    Runs in the transaction that stores the URLs, with the job locked.
    """
    rows = [
        {"job_id": job_id, "url": url[:MAX_URL], "refused": count}
        for url, count in refused.items()
        if count
    ]
    upsert(connection, job_robots, rows, adds="refused")


def read_robots(connection: Connection, job_id: str) -> tuple[RobotsRow, ...]:
    columns = job_robots.c
    rows = connection.execute(
        select(job_robots)
        .where(columns.job_id == job_id)
        .order_by(columns.refused.desc(), columns.url)
        .limit(REPORTED_HOSTS)
    )
    return tuple(
        RobotsRow(
            url=row.url,
            seen=RobotsSeen(row.state, row.detail, row.agent, row.crawl_delay_s)
            if row.state
            else None,
            refused=row.refused,
        )
        for row in rows
    )
