"""What repeats over the pages of a job: text of the frame of a site, and whole pages.

The log of the texts of delivered pages is in the database, so that it survives a restart
and all processes share it. What each process makes of it is here.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import bindparam, insert, select

from scraper_service.content.text.fingerprint import distance
from scraper_service.storage.schema import page_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

MAX_TEXTS = 20_000  # pages of a job that are remembered
MAX_HOSTS = 100  # of which blocks are
LEARNT_PAGES = 20  # of a host, from which its frame is learnt
LEAST_PAGES = 4  # that have a block, before it counts as a part of the frame
LEAST_SHARE = 0.5  # of the pages learnt from
MAX_DISTANCE = 3  # bits, between the fingerprints of texts that are nearly the same
READ_ROWS = 1000
_BANDS = tuple(range(0, 64, 16))  # one of them is equal where at most three bits differ

_READ = (
    select(page_text)
    .where(
        page_text.c.job_id == bindparam("job_id"), page_text.c.id > bindparam("last")
    )
    .order_by(page_text.c.id)
    .limit(READ_ROWS)
)
_ADD = insert(page_text)


@frozen
class PageText:
    """The text of a delivered page.

    ``url`` is its address, ``fingerprint`` that of its Markdown, 0 for too little text;
    ``blocks`` are hashes, none if the frame of its host is learnt. ``id`` is its place
    in the log, 0 before it is there.
    """

    host: str
    url: str
    fingerprint: int
    blocks: tuple[int, ...] = ()
    id: int = 0


def texts_after(connection: Connection, job_id: str, last: int) -> list[PageText]:
    """Return up to :data:`READ_ROWS` texts of a job that were stored after ``last``."""
    rows = connection.execute(_READ, {"job_id": job_id, "last": last})
    return [
        PageText(
            row.host, row.url, row.fingerprint % 2**64, _unpacked(row.blocks), row.id
        )
        for row in rows
    ]


def add_texts(connection: Connection, job_id: str, texts: Iterable[PageText]) -> None:
    """Store the texts of pages, in the transaction that delivers them."""
    rows = [
        {
            "job_id": job_id,
            "host": text.host,
            "url": text.url,
            "fingerprint": _signed(text.fingerprint),
            "blocks": struct.pack(f"<{len(text.blocks)}q", *text.blocks),
        }
        for text in texts
    ]
    if rows:
        connection.execute(_ADD, rows)


class Repeats:
    """What is known of the pages of a job that were delivered.

    It never says of a text that it repeats, unless delivered pages have it.
    """

    def __init__(self) -> None:
        self.last = 0
        self._texts: list[PageText] = []
        self._near: dict[tuple[int, int], list[int]] = {}
        self._pages: Counter[str] = Counter()
        self._blocks: dict[str, Counter[int]] = {}

    @property
    def is_full(self) -> bool:
        """Whether no further page is to be remembered."""
        return len(self._texts) >= MAX_TEXTS

    def add(self, texts: Sequence[PageText]) -> None:
        """Take note of texts from the log; those that are known are left out."""
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
        """Tell whether the blocks of further pages of ``host`` are of use."""
        pages = self._pages.get(host)
        if pages is None:
            return len(self._pages) < MAX_HOSTS
        return pages < LEARNT_PAGES

    def repeated(self, host: str, blocks: Iterable[int]) -> set[int]:
        """Return those of ``blocks`` that the pages of ``host`` share."""
        known = self._blocks.get(host)
        if known is None:
            return set()
        least = max(LEAST_PAGES, LEAST_SHARE * self._pages[host])
        return {block for block in blocks if known[block] >= least}

    def original(self, fingerprint: int) -> str | None:
        """Return the address of the first page whose text is nearly the same."""
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


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _unpacked(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)
