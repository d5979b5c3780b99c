"""What all benchmarks print, and where they save it."""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESULTS = Path(__file__).parent / "results"
MACHINE = f"{os.cpu_count()} cores, Python {platform.python_version()}"


def arguments(about: str | None, name: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all; ``name`` is the file of the result."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--quick", action="store_true", help="a few seconds, to see that it works"
    )
    parser.add_argument("--save", action="store_true", help=f"write {name}")
    return parser


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def publish(text: str, name: str, *, save: bool) -> None:
    """Print a report; ``save`` writes it to the file of that name, too."""
    print(text)
    if save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / name).write_text(text, encoding="utf-8")
