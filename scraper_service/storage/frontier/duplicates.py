"""Duplicates among the pages of a job: whole pages, and blocks that a site repeats.

The database has a log of the texts of delivered pages, so that all processes share the
log and it survives a restart. Each process builds its own :class:`Repeats` of the log.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import bindparam, select

from scraper_service.content.words import distance
from scraper_service.storage.schema import page_text
from scraper_service.storage.transactions import Insertion, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

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
