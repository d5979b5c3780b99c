"""Installs into a virtual environment, and prints each step in a line with its seconds.

``make`` runs ``python tools/install.py VENV ARGUMENT...``. It takes uv where uv is installed,
and pip elsewhere. The module needs the standard library only.
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
    from collections.abc import Callable, Iterator

#: Seconds between two signs of life: each second where a terminal shows one line.
TICK_S = 1 if sys.stdout.isatty() else 4
UV = shutil.which("uv")


def main(folder: Path, arguments: list[str]) -> int:
    """Return the exit code of pip or uv."""
    if sys.version_info < (3, 11):  # noqa: UP036  # the interpreter of the machine
        sys.exit("Python 3.11 or later is required; set it with make PYTHON=...")
    python = folder / "bin" / "python"
    if not python.exists():
        with step(f"creating {folder}"):
            create(folder)
    if UV:
        command = [UV, "pip", "install", "--python", str(python)]
    else:
        # Modules are compiled when they are first imported: all of them take longer.
        command = [str(python), "-m", "pip", "install", "--no-compile"]
    return follow([*command, *arguments])


def create(folder: Path) -> None:
    if UV:
        command = (UV, "venv", "--quiet", "--seed", "--python", sys.executable, folder)
        subprocess.run(command, check=True)  # noqa: S603
    else:
        venv.create(folder, symlinks=True, with_pip=True)


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
                yield name(found)


def packages(number: int | str) -> str:
    return f"{number} package{'' if int(number) == 1 else 's'}"


#: Beginnings of lines, and the steps that follow them.
STEPS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    # pip
    (r" *Preparing editable metadata .*started", lambda _: "downloading packages"),
    (r" *Building editable .*started", lambda _: "compiling the extension"),
    (
        r"Installing collected packages: (.*)",
        lambda found: f"installing {packages(found[1].count(',') + 1)}",
    ),
    # uv
    (
        r"Resolved (\d+) packages?",
        lambda found: f"downloading {packages(found[1])}, compiling the extension",
    ),
    (r"Prepared ", lambda _: "installing the packages"),  # counts those without a copy
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
