"""The hosts and paths of advertising and tracking that ``blockAds`` blocks.

Frames of these hosts are no players, so they are in no format. The built-in rules are our own.
The operator may add a list: a host name per line, also as a hosts file or as ``||host^``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


FILE = "blocklist.txt"  # in DATA_DIR
MAX_HOSTS = 1_000_000
#: The hosts of advertising, tracking and consent; all their subdomains count.
AD_HOSTS = frozenset(
    """
    2mdn.net adform.net adlightning.com admob.com adnxs.com adroll.com ads-twitter.com
    adsafeprotected.com adsrvr.org adsymptotic.com amazon-adsystem.com amplitude.com
    analytics.google.com analytics.tiktok.com app-measurement.com appnexus.com
    atdmt.com bat.bing.com bidswitch.net bluekai.com bounceexchange.com branch.io
    casalemedia.com chartbeat.com chartbeat.net clarity.ms connect.facebook.net
    contextweb.com cookiebot.com cookielaw.org crazyegg.com criteo.com criteo.net
    crwdcntrl.net demdex.net didomi.io doubleclick.net doubleverify.com everesttech.net
    exelator.com facebook.net flashtalking.com fullstory.com google-analytics.com
    googleadservices.com googlesyndication.com googletagmanager.com googletagservices.com
    gumgum.com heapanalytics.com hotjar.com hotjar.io imrworldwide.com indexww.com
    innovid.com intercom.io iubenda.com krxd.net lijit.com liveramp.com mathtag.com
    media.net mediavine.com mixpanel.com moatads.com mookie1.com mouseflow.com
    newrelic.com nr-data.net omnitagjs.com omtrdc.net onetrust.com openx.net
    optimizely.com outbrain.com parsely.com perfectaudience.com permutive.com
    pubmatic.com quantcast.com quantcount.com quantserve.com rlcdn.com rubiconproject.com
    scorecardresearch.com segment.com segment.io serving-sys.com sharethrough.com
    smartadserver.com smartlook.com spotxchange.com stackadapt.com statcounter.com
    taboola.com tapad.com teads.tv tremorhub.com tribalfusion.com trustarc.com
    truste.com tynt.com usercentrics.eu yieldmo.com zedo.com zemanta.com
    """.split()
)

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
