"""The arguments, tables and result files of all benchmarks."""

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
    """Return a parser with the common options; ``name`` is the result file."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--quick", action="store_true", help="run for a few seconds, as a test"
    )
    parser.add_argument("--save", action="store_true", help=f"write {name}")
    return parser


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def publish(text: str, name: str, *, save: bool) -> None:
    """Print a report; with ``save``, also write it to the result file ``name``."""
    print(text)
    if save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / name).write_text(text, encoding="utf-8")
