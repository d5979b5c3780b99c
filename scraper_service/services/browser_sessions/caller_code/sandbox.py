"""The command that isolates a program with code of a caller, by bubblewrap.

The program has its own user, network, process and IPC namespaces, no capabilities, no
environment, and no file but those of its interpreter, of Playwright and of two empty folders
in memory. It has no ``/proc``: the memory of other processes cannot be named.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scraper_service.options.limits import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM: Final = "bwrap"
INSTALL: Final = (
    "the program bwrap is not installed (`apt-get install bubblewrap libseccomp2`)"
)
#: Bytes of all files that a program writes, and bytes of one of them.
MOST_FILE_BYTES: Final = 64 * 2**20
#: Where a program finds its parts and the socket of its browser.
SITE, PREFIX, SOCKET = "/opt/site", "/opt/python", "/run/browser"
#: Its empty folder, and the file system of it.
FOLDER, FILES = "/tmp/work", "/tmp"  # noqa: S108   # in the sandbox
ENDPOINT: Final = f"ws+unix://{SOCKET}:/"
HEAP_MB: Final = 256  # of JavaScript

_PACKAGES = ("playwright", "pyee", "greenlet", "typing_extensions")
_HERE = Path(__file__).parent
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
_NAMESPACES = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net"),
    *("--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"),
    *("--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session", "--clearenv"),
)


def why_no_program() -> str | None:
    """Return why no program can be isolated, as far as files show it; None if it can."""
    if shutil.which(PROGRAM) is None:
        return INSTALL
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return "the kernel does not list the children of processes in /proc"
    return None


def command(
    language: str, data_dir: Path, socket: Path | None, *options: str
) -> list[str]:
    """Return the arguments that start a program with code in a language.

    ``socket`` leads to the browser. ``options`` are further ones of bubblewrap. A folder that
    holds ``data_dir`` shows an empty one in its place.
    """
    binds = dict(_binds())
    found = [shutil.which(PROGRAM) or PROGRAM, *_NAMESPACES, *options]
    for source, target in binds.items():
        found += ("--ro-bind", str(source), target)
    found += _links()
    found += _covers(binds, data_dir)
    found += ("--size", str(MOST_FILE_BYTES), "--tmpfs", FILES, "--dir", FOLDER)
    for device in ("/dev/null", "/dev/urandom"):
        found += ("--dev-bind", device, device)
    if socket is not None:
        found += ("--ro-bind", str(socket), SOCKET)
    found += ("--setenv", "HOME", FILES, "--setenv", "LD_LIBRARY_PATH", f"{PREFIX}/lib")
    found += ("--remount-ro", "/", "--chdir", FOLDER, "--")
    return [*found, *_interpreter(language)]


def _interpreter(language: str) -> Sequence[str]:
    driver = f"{SITE}/playwright/driver"
    if language == NODE:
        heap = f"--max-old-space-size={HEAP_MB}"
        return (f"{driver}/node", heap, "/opt/run.js", f"{driver}/package")
    # Isolated, without packages of the machine, and with output that is never held back.
    options = ("-I", "-S", "-u", "-X", "utf8")
    return (f"{PREFIX}/bin/python3", *options, "/opt/run.py", SITE)


def _binds() -> Iterator[tuple[Path, str]]:
    """Yield what the interpreters need, each with its place in the sandbox."""
    for folder in map(Path, _LIBRARIES):
        if folder.is_dir() and not folder.is_symlink():
            yield from ((each, str(each)) for each in _libraries(folder))
    cache = Path("/etc/ld.so.cache")
    if cache.exists():
        yield cache, str(cache)
    yield Path(os.path.realpath(sys.executable)), f"{PREFIX}/bin/python3"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    yield Path(sysconfig.get_path("stdlib")), f"{PREFIX}/lib/{version}"
    names = map(sysconfig.get_config_var, ("LIBDIR", "INSTSONAME"))
    library = Path(*(name or "none" for name in names))
    if library.suffix != ".a" and library.is_file():
        yield library, f"{PREFIX}/lib/{library.name}"
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            path = Path(found.origin)
            path = path.parent if path.name == "__init__.py" else path
            yield path, f"{SITE}/{path.name}"
    yield _HERE / "run_node.js", "/opt/run.js"
    yield _HERE / "run_python.py", "/opt/run.py"


def _libraries(folder: Path) -> Iterator[Path]:
    """Yield the libraries of a folder: on Debian those of this machine's kind only."""
    own = folder / (sysconfig.get_config_var("MULTIARCH") or "none")
    if own.is_dir():
        yield own
        yield from folder.glob("ld-linux*")
    elif not folder.name.endswith("64") and any(folder.glob("*-linux-gnu")):
        yield from folder.glob("*-linux-gnu")
        yield from folder.glob("ld-linux*")
    else:
        yield folder


def _links() -> Iterator[str]:
    for folder in map(Path, _LIBRARIES):
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))


def _covers(binds: dict[Path, str], data_dir: Path) -> Iterator[str]:
    """Yield the arguments that hide what a bound folder has beside what it is bound for.

    That is the data of the service, and packages of the machine beside Python's own.
    """
    own = Path(sysconfig.get_path("stdlib"))
    packages = (own / name for name in ("site-packages", "dist-packages"))
    hidden = [data_dir, *(each for each in packages if each.is_dir())]
    for each in (Path(os.path.realpath(path)) for path in hidden):
        for source, target in binds.items():
            real = Path(os.path.realpath(source))
            if each.is_relative_to(real):
                place = str(target / each.relative_to(real))
                yield from ("--size", "4096", "--tmpfs", place, "--remount-ro", place)
