"""Fingerprints of texts: near-duplicates differ in few bits."""

from __future__ import annotations

from zlib import crc32

MAX_TEXT = 200_000  # characters that count
BITS = 64
# 2**128 / golden ratio, odd, in parts of 32 bits from the lowest on. The bits of a
# product from the 40th on, which depend on all others, are the hash of a word.
_SPREAD = (0x5CEDC835, 0xF39CC060, 0x7F4A7C15, 0x9E3779B9)


def fingerprint(text: str) -> int:
    """Return the simhash of the words of ``text``: 64 bits, 0 for no words.

    Each word counts once and the order does not, so that a list sorted otherwise is
    the same. Texts that share 98 % of their words differ in about 4 bits, those that
    share half of them in about 21. The same in every process.

    Source: Charikar, Similarity estimation techniques from rounding algorithms, 2002.
    """
    words = set(text[:MAX_TEXT].lower().encode(errors="replace").split())
    if not words:
        return 0
    # Only converter processes make fingerprints, and have loaded numpy anyway.
    import numpy as np  # noqa: PLC0415

    sums = np.fromiter(map(crc32, words), np.uint64, len(words))
    first, second, third, fourth = map(np.uint64, _SPREAD)
    low = ((sums * first) >> np.uint64(32)) + sums * second  # less than 2**64
    hashes = (
        (low >> np.uint64(8))
        + (sums * third << np.uint64(24))
        + (sums * fourth << np.uint64(56))
    )
    bits = np.unpackbits(hashes.astype("<u8").view(np.uint8), bitorder="little")
    counts = bits.reshape(-1, BITS).sum(axis=0, dtype=np.uint32)
    most = np.packbits(counts > len(words) / 2, bitorder="little")
    return int.from_bytes(most.tobytes(), "little")


def distance(one: int, other: int) -> int:
    """Return the number of bits in which two fingerprints differ."""
    return (one ^ other).bit_count()
