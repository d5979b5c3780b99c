"""The hosts and paths of advertising and tracking that ``blockAds`` blocks.

The built-in rules are our own. ``scraper-service blocklist update`` adds a list of the
operator: a host name per line, also as a hosts file or as ``||host^``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scraper_service.content.html.embedded import AD_HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE = "blocklist.txt"  # in DATA_DIR
MAX_HOSTS = 1_000_000

# URL patterns of Chromium, on any host.
PATHS = (
    "*/ads.js*",
    "*/adsbygoogle*",
    "*/advertisement.js*",
    "*/beacon.min.js*",
    "*/cookie-banner*.js*",
    "*/cookieconsent*.js*",
    "*/gtag/js*",
    "*/pagead/*",
    "*/piwik.js*",
    "*/matomo.js*",
    "*/prebid*.js*",
    "*/show_ads*",
)

_NAME = re.compile(
    r"(?:\|\||(?:0\.0\.0\.0|127\.0\.0\.1)\s+)?([a-z0-9_.-]+\.[a-z0-9-]+)\^?"
)
_LOCAL = frozenset({"localhost.localdomain", "0.0.0.0"})  # noqa: S104  # in hosts files


def read_hosts(lines: Iterable[str]) -> frozenset[str]:
    """Return the host names of a list. Ignores invalid lines."""
    found: set[str] = set()
    for line in lines:
        match = _NAME.fullmatch(line.partition("#")[0].strip().lower())
        if match and match[1] not in _LOCAL and not match[1].replace(".", "").isdigit():
            found.add(match[1])
            if len(found) >= MAX_HOSTS:
                break
    return frozenset(found)


def load_hosts(data_dir: Path) -> frozenset[str]:
    """Return all blocked host names, with those of the operator."""
    try:
        with (data_dir / FILE).open(encoding="utf-8", errors="replace") as lines:
            return AD_HOSTS | read_hosts(lines)
    except FileNotFoundError:
        return AD_HOSTS


def is_blocked(host: str, blocked: frozenset[str]) -> bool:
    """Return True if ``host`` or a parent domain is in ``blocked``."""
    labels = host.lower().split(".")
    return any(".".join(labels[at:]) in blocked for at in range(len(labels) - 1))
