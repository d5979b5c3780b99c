"""Where Chromium is, and how it is started so that nothing gets past our proxy."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLAYWRIGHT_FOLDER = Path("~/.cache/ms-playwright")
HEAP_MB = 512  # of JavaScript, per page

INSTALL = (
    "Install one with `apt-get install chromium` or `playwright install chromium`,"
    " or name one by SCRAPER_CHROMIUM_PATH"
)

# What Playwright switches off, whose list ours takes the place of, and processes that are
# started for a next page: contexts share none, so they cost a fourth of all and help nobody.
FEATURES_OFF = (
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "SpareRendererForSitePerProcess",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
)

# What stands between a page and the network beside the proxy: names are resolved by
# nobody but the proxy, no datagram leaves, and Chromium sends nothing of its own.
FLAGS = (
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    f"--disable-features={','.join(FEATURES_OFF)}",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-pings",
    "--mute-audio",
    f"--js-flags=--max-old-space-size={HEAP_MB}",
)
# A browser has no business with anything else of our environment.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "FONTCONFIG_PATH", "XDG_DATA_DIRS")


def find_chromium(settings: BaseSettings) -> str | None:
    """Return the path of the browser: the setting's, Playwright's, or one of the PATH.

    None if there is none.
    """
    where = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", ""), os.environ.get("PATH", "")
    return _found(settings["CHROMIUM_PATH"] or "", *where)


def _of_playwright() -> str | None:
    """Return the newest Chromium that ``playwright install`` brought."""
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")).expanduser()
    if folder == Path():
        folder = PLAYWRIGHT_FOLDER.expanduser()
    patterns = ("chromium-*/chrome-linux*/chrome", "chromium_headless_shell-*/*/*shell")
    found = [path for pattern in patterns for path in folder.glob(pattern)]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


@functools.lru_cache(maxsize=16)
def _found(path: str, browsers_path: str, search_path: str) -> str | None:
    """Return what :func:`find_chromium` returns; it looks at the disk."""
    del browsers_path, search_path  # what the answer depends on
    if path:
        return shutil.which(path)
    return _of_playwright() or next(filter(None, map(shutil.which, NAMES)), None)


def why_missing(settings: BaseSettings) -> str | None:
    """Tell why no browser can be used, None if one can."""
    if str(settings["RENDER"]) == "never":
        return "the operator has switched the browser off (SCRAPER_RENDER is never)"
    if find_chromium(settings) is None:
        named = settings["CHROMIUM_PATH"]
        text = (
            f"no program is at SCRAPER_CHROMIUM_PATH ({named})"
            if named
            else "none was found"
        )
        return f"it needs a Chromium browser, and {text}. {INSTALL}"
    if os.geteuid() == 0 and settings.getbool("BROWSER_SANDBOX"):
        return (
            "the browser's sandbox does not work for root: run the service as another user,"
            " or set SCRAPER_BROWSER_SANDBOX=false if the container isolates it enough"
        )
    return None


def launch_options(settings: BaseSettings, proxy: str, home: str) -> dict[str, Any]:
    """Return what Playwright's ``launch`` takes; ``home`` is a directory to be deleted."""
    known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {
        "executable_path": find_chromium(settings),
        "headless": True,
        "chromium_sandbox": settings.getbool("BROWSER_SANDBOX"),
        "proxy": {"server": proxy},
        "args": list(FLAGS),
        "env": {**known, "HOME": home, "TMPDIR": home},
        # The service says when it ends.
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }
