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


def fidelity_and_metadata(
    scorers: Path, corpora: Path, wcxb: Path | None, stride: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield a title and the lines of the scorer's output for each measure.

    Raises :exc:`subprocess.CalledProcessError` if a scorer fails.
    """
    specs = corpora / "markdown-specs"
    fidelity = "score_fidelity.py"
    runs = [
        (
            "Round trip: CommonMark",
            fidelity,
            "spec",
            specs / "commonmark-spec.txt",
            WHOLE,
        ),
        ("Round trip: GFM", fidelity, "spec", specs / "gfm-spec.txt", WHOLE),
        (
            "Structure kept: articles",
            fidelity,
            "struct",
            corpora / "readability",
            WHOLE,
            "--set",
            "readability",
        ),
    ]
    if wcxb:
        every = str(4 * stride)
        runs += [
            (
                "Structure kept: documentation and forums",
                fidelity,
                "struct",
                wcxb,
                WHOLE,
                *("--set", "wcxb", "--types", "documentation,forum", "--stride", every),
            ),
            ("Metadata", "score_meta.py", "wcxb", wcxb, FACTS, "--stride", every),
        ]
    for title, script, *arguments in runs:
        yield (
            title,
            ["```", *_run(scorers / script, [str(a) for a in arguments]), "```"],
        )


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
