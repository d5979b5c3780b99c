"""Finds Chromium, and has the options of its start and its certificate authorities."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import shutil
import ssl
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

# The headless shell first: a page takes a third of the CPU time and half the memory.
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
PLAYWRIGHT_FOLDER = Path("~/.cache/ms-playwright")
HEAP_MB = 512  # of JavaScript, per page
INSTALL = (
    "Install one with `apt-get install chromium-headless-shell` or"
    " `playwright install chromium`,"
    " or name one by SCRAPER_CHROMIUM_PATH"
)
# Replaces Playwright's list. Also off: processes started ahead for a next page, which cost
# a fourth of all time and are never used, since contexts share no processes.
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
# Nothing may pass the proxy: it resolves all names, no datagram leaves, and Chromium sends
# no requests of its own.
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
PORT = "--remote-debugging-port=0"
# The only variables of our environment that the browser gets.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "FONTCONFIG_PATH", "XDG_DATA_DIRS")
CERTUTIL = "certutil"
INSTALL_CERTUTIL = "install it with `apt-get install libnss3-tools`"
DATABASE = Path(".pki/nssdb")  # below Chromium's HOME
IMPORT_S = 60.0
#: NSS syncs the disk for each certificate, 10 s in all. In memory it takes 1 s.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108   # the directory in it is private
logger = logging.getLogger(__name__)


def find_chromium(settings: BaseSettings) -> str | None:
    """Return the path of Chromium: of the setting, of Playwright, or in the PATH.

    None if there is none.
    """
    where = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", ""), os.environ.get("PATH", "")
    return _search_disk(settings["CHROMIUM_PATH"] or "", *where)


def _of_playwright() -> str | None:
    """Return the newest Chromium of ``playwright install``.

    None also if this user may not read the folder.
    """
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")).expanduser()
    if folder == Path():
        folder = PLAYWRIGHT_FOLDER.expanduser()
    patterns = ("chromium_headless_shell-*/*/*shell", "chromium-*/chrome-linux*/chrome")
    with contextlib.suppress(PermissionError):
        for pattern in patterns:
            if found := list(folder.glob(pattern)):
                return str(max(found, key=lambda path: path.stat().st_mtime))
    return None


@functools.lru_cache(maxsize=16)
def _search_disk(path: str, browsers_path: str, search_path: str) -> str | None:
    del browsers_path, search_path  # keys of the cache
    if path:
        return shutil.which(path)
    return _of_playwright() or next(filter(None, map(shutil.which, NAMES)), None)


def _why_off(settings: BaseSettings) -> str | None:
    if str(settings["RENDER"]) == "never":
        return "the operator has switched the browser off (SCRAPER_RENDER is never)"
    if not _has_library():
        return "it needs the extra browser: pip install 'scraper-service[browser]'"
    return None


@functools.cache
def _has_library() -> bool:
    return find_spec("scrapy_playwright") is not None


def why_missing(settings: BaseSettings) -> str | None:
    """Return why no page can be rendered, None if it can."""
    if (off := _why_off(settings)) is not None:
        return off
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


def launch_options(
    settings: BaseSettings, proxy: str, home: str, *, has_port: bool = False
) -> dict[str, Any]:
    """Return the arguments of Playwright's ``launch``. ``home`` is a temporary directory.

    With ``has_port`` Chromium also listens for DevTools on a port of 127.0.0.1.
    """
    known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {
        "executable_path": find_chromium(settings),
        "headless": True,
        "chromium_sandbox": settings.getbool("BROWSER_SANDBOX"),
        "proxy": {"server": proxy},
        "args": [*FLAGS, *([PORT] if has_port else ())],
        "env": {**known, "HOME": home, "TMPDIR": home},
        # The service itself handles signals.
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }


def why_authorities_missing() -> str | None:
    """Return why the browser cannot use the machine's authorities, None if it can."""
    if shutil.which(CERTUTIL):
        return None
    return f"the program {CERTUTIL} is missing: {INSTALL_CERTUTIL}"


def trust_authorities(home: str, data_dir: Path) -> None:
    """Make a Chromium whose HOME is ``home`` trust the authorities of this machine.

    These are the authorities of OpenSSL (``SSL_CERT_FILE``, ``SSL_CERT_DIR``), as in a fetch
    without a browser. They are imported once and kept in ``data_dir`` until they change. A run
    without a ``data_dir`` imports them each time, which takes some seconds. After a failure,
    logs a warning, and Chromium trusts its built-in authorities only.
    """
    if why_authorities_missing():
        return
    found = sorted(set(_authorities()))
    database = Path(home, DATABASE)
    checksum = hashlib.sha256(b"".join(found)).hexdigest()[:16]
    kept = data_dir.absolute() / "authorities" / checksum
    try:
        if not data_dir.is_dir():
            _import(found, database)
            return
        if not kept.exists():
            _import(found, kept)
        shutil.copytree(kept, database)
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("the browser does not know the machine's authorities: %s", error)


def _authorities() -> Iterator[bytes]:
    """Yield the certificates of OpenSSL in DER, some more than once."""
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    for folder in (paths.capath or "").split(os.pathsep):
        files += [
            each for each in Path(folder or "/nowhere").glob("*") if each.is_file()
        ]
    for file in files:
        try:
            text = file.read_text("ascii", "replace")
        except OSError:
            continue
        for part in text.split("-----BEGIN CERTIFICATE-----")[1:]:
            body = part.partition("-----END CERTIFICATE-----")[0]
            try:
                yield ssl.PEM_cert_to_DER_cert(
                    f"-----BEGIN CERTIFICATE-----{body}-----END CERTIFICATE-----"
                )
            except ValueError:
                continue


def _import(certificates: list[bytes], kept: Path) -> None:
    """Create the certificate database ``kept``, possibly an empty one."""
    memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        made = Path(folder, "made")
        made.mkdir()
        _certutil("-N", "--empty-password", "-d", f"sql:{made}")
        commands = []
        for number, certificate in enumerate(certificates):
            file = Path(folder, f"{number}.der")
            file.write_bytes(certificate)
            commands.append(f"-A -n {number} -t C,, -d sql:{made} -i {file}\n")
        batch = Path(folder, "batch")
        batch.write_text("".join(commands))
        _certutil("-B", "-d", f"sql:{made}", "-i", str(batch))
        _keep(made, kept)


def _keep(made: Path, kept: Path) -> None:
    """Copy the database ``made`` to ``kept``, unless another process was faster."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        copy = shutil.copytree(made, Path(folder, "copy"))
        try:
            copy.rename(kept)
        except OSError:
            if not kept.exists():
                raise


def _certutil(*arguments: str) -> None:
    subprocess.run(  # noqa: S603  # the program of NSS in the PATH
        (shutil.which(CERTUTIL) or CERTUTIL, *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=IMPORT_S,
        check=True,
    )
