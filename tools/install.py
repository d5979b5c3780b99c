"""Installs into a virtual environment, and prints each step in a line with its seconds.

``make`` runs ``python tools/install.py VENV ARGUMENT...``. uv installs, since it compiles
the package while it downloads: the uv of the machine, or else one in the environment. pip
installs where uv has no wheel. The module needs the standard library only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("scraper_service", "spiders")
#: Seconds between two signs of life: each second where a terminal shows one line.
TICK_S = 1 if sys.stdout.isatty() else 4


def main(folder: Path, arguments: list[str]) -> int:
    """Return the exit code of pip or uv."""
    if sys.version_info < (3, 11):  # noqa: UP036  # the interpreter of the machine
        sys.exit("Python 3.11 or later is required; set it with make PYTHON=...")
    python = folder / "bin" / "python"
    if not python.exists():
        with step(f"creating {folder}"):
            create(folder)
    uv = shutil.which("uv") or own_uv(folder)
    if uv is not None:
        command = [uv, "pip", "install", "--python", str(python)]
    else:
        # Modules are compiled when they are first imported: all of them take longer.
        command = [str(python), "-m", "pip", "install", "--no-compile"]
    if "-e" not in arguments:
        return follow([*command, *arguments])
    # The C compiler needs one processor. The first start would compile these modules.
    modules = (sys.executable, "-m", "compileall", "-q", *PACKAGES)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(modules, cwd=ROOT, **quiet):  # noqa: S603
        return follow([*command, *arguments])


def create(folder: Path) -> None:
    uv = shutil.which("uv")
    if uv is not None:
        command = (uv, "venv", "--quiet", "--seed", "--python", sys.executable, folder)
        subprocess.run(command, check=True)  # noqa: S603
    else:
        venv.create(folder, symlinks=True, with_pip=True)


def own_uv(folder: Path) -> str | None:
    """Return the path of uv in the environment, or None if pip cannot install uv."""
    uv = folder / "bin" / "uv"
    if not uv.exists():
        pip = (
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--only-binary=:all:",
            "uv",
        )
        with step("installing uv"):
            subprocess.run(pip, capture_output=True, check=False)  # noqa: S603
    return str(uv) if uv.exists() else None


def follow(command: list[str]) -> int:
    """Run a command, with a step for each of its lines that begins one."""
    lines = []
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        rest = iter(process.stdout)
        name: str | None = "reading the requirements"
        while name is not None:
            with step(name):
                name = next(named(rest, lines), None)
    if process.returncode:
        print(*lines, sep="", end="", file=sys.stderr)
    return process.returncode


def named(rest: Iterator[str], lines: list[str]) -> Iterator[str]:
    """Yield the names of steps that lines of pip or uv begin."""
    for line in rest:
        lines.append(line)
        for pattern, name in STEPS:
            found = re.match(pattern, line)
            if found:
                yield found.expand(name)


#: Beginnings of lines of uv or pip, and the steps that follow them.
STEPS = (
    (r"Resolved (\d+ packages?)", r"downloading \1, compiling the extension"),
    ("Prepared |Installing collected packages", "installing the packages"),
)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print the name now and each ``TICK_S``, and the seconds at the end."""
    began, ended = time.monotonic(), threading.Event()
    terminal = sys.stdout.isatty()

    def tick() -> None:
        while not ended.wait(TICK_S):
            say(f"\r{name} …{seconds(began)}" if terminal else seconds(began))

    say(f"{name} …")
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        say(f"\r{name} …{seconds(began)}\n" if terminal else f"{seconds(began)}\n")


def seconds(began: float) -> str:
    return f" {time.monotonic() - began:.0f} s"


def say(text: str) -> None:
    print(text, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
