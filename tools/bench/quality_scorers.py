"""Runs external scorers of Markdown fidelity and metadata."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tools.bench.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHOLE = "tools.bench.quality_pages:whole_markdown"
FACTS = "tools.bench.quality_pages:metadata_facts"
LIMIT_S = 1800


def fidelity(
    scorers: Path, corpora: Path, wcxb: Path | None, stride: int, whole: str = WHOLE
) -> Iterator[tuple[str, list[str]]]:
    """Yield a title and the lines of the scorer's output for each measure.

    ``whole`` names the function that converts a page. Raises
    :exc:`subprocess.CalledProcessError` if a scorer fails.
    """
    specs = corpora / "markdown-specs"
    script = "score_fidelity.py"
    runs = [
        (
            "Round trip: CommonMark",
            script,
            "spec",
            specs / "commonmark-spec.txt",
            whole,
        ),
        ("Round trip: GFM", script, "spec", specs / "gfm-spec.txt", whole),
        (
            "Structure kept: articles",
            script,
            "struct",
            corpora / "readability",
            whole,
            "--set",
            "readability",
        ),
    ]
    if wcxb:
        runs.append(
            (
                "Structure kept: documentation and forums",
                script,
                "struct",
                wcxb,
                whole,
                *("--set", "wcxb", "--types", "documentation,forum"),
                *("--stride", str(4 * stride)),
            )
        )
    for title, name, *arguments in runs:
        yield title, _run(scorers / name, [str(each) for each in arguments])


def metadata(scorers: Path, wcxb: Path, stride: int) -> list[str]:
    """Return the lines of the scorer of metadata."""
    every = str(4 * stride)
    script = scorers / "score_meta.py"
    return _run(script, ["wcxb", str(wcxb), FACTS, "--stride", every])


def _run(script: Path, arguments: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout.strip().splitlines()
