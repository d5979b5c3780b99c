"""Lists of pages by term, as the index of scraped pages stores them; no database here.

A segment is some thousand pages. Its lists are cut by the first bits of the terms into
pieces of some kilobytes, so that a look-up reads one of them. They never change: new
pages are a new segment, and segments become one when there are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    NumbersT: TypeAlias = NDArray[np.uint64]
    PagesT: TypeAlias = NDArray[np.uint16]
    ImpactsT: TypeAlias = NDArray[np.uint8]

MAX_PAGES = 2**16  # of a segment: their numbers in it have two bytes
PIECE_BYTES = 12 * 1024  # about
_TERM_BYTES = 9  # of a page that is not in a segment yet: number and impact
_POSTING_BYTES = 3


@frozen
class Postings:
    """Terms with their pages, side by side: sorted by term, then by page."""

    terms: NumbersT
    pages: PagesT
    impacts: ImpactsT

    @classmethod
    def of_pages(cls, entries: Sequence[bytes]) -> Postings:
        """Return those of pages, numbered as they come, of their packed terms."""
        sizes = [len(entry) // _TERM_BYTES for entry in entries]
        terms = [
            np.frombuffer(entry, "<u8", size)
            for entry, size in zip(entries, sizes, strict=True)
        ]
        impacts = [
            np.frombuffer(entry, "u1", size, 8 * size)
            for entry, size in zip(entries, sizes, strict=True)
        ]
        pages = np.repeat(np.arange(len(entries), dtype=np.uint16), sizes)
        if not entries:
            return cls(*_nothing())
        return cls._sorted(np.concatenate(terms), pages, np.concatenate(impacts))

    @classmethod
    def _sorted(cls, terms: NumbersT, pages: PagesT, impacts: ImpactsT) -> Postings:
        order = np.argsort(terms, kind="stable")
        return cls(terms[order], pages[order], impacts[order])

    @classmethod
    def merged(cls, parts: Iterable[tuple[Postings, NDArray[np.int64]]]) -> Postings:
        """Return those of several segments; each with the new numbers of its pages.

        A page with a negative number is left out.
        """
        terms, pages, impacts = [], [], []
        for part, numbers in parts:
            new = numbers[part.pages]
            kept = new >= 0
            terms.append(part.terms[kept])
            pages.append(new[kept].astype(np.uint16))
            impacts.append(part.impacts[kept])
        if not terms:
            return cls(*_nothing())
        return cls._sorted(
            np.concatenate(terms), np.concatenate(pages), np.concatenate(impacts)
        )

    @property
    def bits(self) -> int:
        """How many first bits of a term tell its piece, for pieces of a good size."""
        size = len(self.terms) * (_POSTING_BYTES + 4)
        return max(0, (size // PIECE_BYTES).bit_length())

    def pieces(self, bits: int) -> dict[int, bytes]:
        """Return the pieces by their number: the first ``bits`` of their terms."""
        if not len(self.terms):
            return {}
        numbers = _first_bits(self.terms, bits)
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        ends = np.r_[starts[1:], len(numbers)]
        return {
            int(numbers[start]): self._piece(int(start), int(end))
            for start, end in zip(starts, ends, strict=True)
        }

    def _piece(self, start: int, end: int) -> bytes:
        terms = self.terms[start:end]
        firsts = np.flatnonzero(np.r_[True, terms[1:] != terms[:-1]])
        counts = np.diff(np.r_[firsts, len(terms)])
        return b"".join(
            (
                len(firsts).to_bytes(4, "little"),
                terms[firsts].astype("<u8").tobytes(),
                counts.astype("<u4").tobytes(),
                self.pages[start:end].astype("<u2").tobytes(),
                self.impacts[start:end].tobytes(),
            )
        )


def read_piece(piece: bytes) -> Postings:
    """Return the postings of a piece."""
    terms, counts, pages, impacts = _columns(piece)
    return Postings(np.repeat(terms, counts), pages, impacts)


def find_term(piece: bytes, number: int) -> tuple[PagesT, ImpactsT]:
    """Return the pages of a term and its impact in each."""
    terms, counts, pages, impacts = _columns(piece)
    place = int(np.searchsorted(terms, np.uint64(number)))
    if place == len(terms) or int(terms[place]) != number:
        return pages[:0], impacts[:0]
    start = int(counts[:place].sum())
    end = start + int(counts[place])
    return pages[start:end], impacts[start:end]


def piece_of(number: int, bits: int) -> int:
    """Return the number of the piece that has a term."""
    return number >> (64 - bits) if bits else 0


def find_all(postings: Postings, numbers: Iterable[int]) -> Mapping[int, slice]:
    """Return where the postings of each term are."""
    found = {}
    for number in numbers:
        wanted = np.uint64(number)
        start = int(np.searchsorted(postings.terms, wanted, "left"))
        end = int(np.searchsorted(postings.terms, wanted, "right"))
        found[number] = slice(start, end)
    return found


def _columns(
    piece: bytes,
) -> tuple[NumbersT, NDArray[np.uint32], PagesT, ImpactsT]:
    count = int.from_bytes(piece[:4], "little")
    terms = np.frombuffer(piece, "<u8", count, 4)
    counts = np.frombuffer(piece, "<u4", count, 4 + 8 * count)
    start = 4 + 12 * count
    total = (len(piece) - start) // _POSTING_BYTES
    pages = np.frombuffer(piece, "<u2", total, start)
    impacts = np.frombuffer(piece, "u1", total, start + 2 * total)
    return terms, counts, pages, impacts


def _first_bits(terms: NumbersT, bits: int) -> NumbersT:
    if not bits:
        return np.zeros(len(terms), dtype=np.uint64)
    return terms >> np.uint64(64 - bits)


def _nothing() -> tuple[NumbersT, PagesT, ImpactsT]:
    return np.zeros(0, "<u8"), np.zeros(0, "<u2"), np.zeros(0, "u1")
