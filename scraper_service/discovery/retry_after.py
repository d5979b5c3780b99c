"""Pauses after a 429 or 503: ``Retry-After``, else an exponential backoff."""

from __future__ import annotations

import random
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

MAX_PAUSE_S = 600.0  # the longest pause, even if a site requests more
BACKOFF_S = 1.0  # the first pause without a Retry-After; it doubles
MAX_BACKOFF_S = 60.0
BUSY = frozenset({429, 503})


def retry_after_s(value: str, sent: str, now: float) -> float | None:
    """Return the pause of a ``Retry-After`` header in seconds, None if it has none.

    The value is seconds or an HTTP date (RFC 9110, 10.2.3). A date counts from ``sent``, the
    ``Date`` of the response, else from ``now`` (seconds since 1970). Negative, past and invalid
    values have no pause.
    """
    if re.fullmatch(r"[0-9]{1,18}(\.[0-9]+)?", value.strip(), re.ASCII):
        pause_s = float(value)
    elif (until := _seconds_of(value)) is not None:
        pause_s = until - (_seconds_of(sent) or now)
    else:
        return None
    return min(pause_s, MAX_PAUSE_S) if pause_s > 0 else None


def _seconds_of(date: str) -> float | None:
    try:
        found = parsedate_to_datetime(date)
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def backoff_s(times: int) -> float:
    """Return the pause before attempt ``times`` (from 1) without a ``Retry-After``."""
    pause_s: float = min(BACKOFF_S * 2 ** min(times - 1, 30), MAX_BACKOFF_S)
    return pause_s * random.uniform(0.75, 1.25)  # noqa: S311  # not a secret
