"""The simhash of a text, by numpy; ``word_hashes.pyx`` has the same name, compiled."""

from __future__ import annotations

from zlib import crc32

_BITS = 64
# 2**128 / golden ratio, odd, in parts of 32 bits, lowest first. The hash of a word is
# its CRC times this number, from the 40th bit on: these bits depend on all others.
_SPREAD = (0x5CEDC835, 0xF39CC060, 0x7F4A7C15, 0x9E3779B9)


def simhash(text: str) -> int:
    """Return 64 bits: those that most words of ``text`` have; 0 for no words."""
    words = set(text.lower().encode(errors="replace").split())
    if not words:
        return 0
    import numpy as np  # noqa: PLC0415  # not needed where this is compiled

    sums = np.fromiter(map(crc32, words), np.uint64, len(words))
    first, second, third, fourth = map(np.uint64, _SPREAD)
    low = ((sums * first) >> np.uint64(32)) + sums * second  # less than 2**64
    hashes = (
        (low >> np.uint64(8))
        + (sums * third << np.uint64(24))
        + (sums * fourth << np.uint64(56))
    )
    bits = np.unpackbits(hashes.astype("<u8").view(np.uint8), bitorder="little")
    counts = bits.reshape(-1, _BITS).sum(axis=0, dtype=np.uint32)
    most = np.packbits(counts > len(words) / 2, bitorder="little")
    return int.from_bytes(most.tobytes(), "little")
