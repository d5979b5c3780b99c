"""Sentences that ask for a crawl: how many are turned into the right options, how fast.

The sentences, the sites and what each should mean are those of ``tests/support/sentences.py``.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

from tests.support.sentences import FIRST_RUN, HELD_OUT, LATER, SENTENCES
from tests.support.wishes import outcome, wanted_outcome
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from tests.support.sentences import Sentence

RESULT = "sentences.md"
HEADINGS = ("Sentences", "Number", "Right", "Right at first", "Median ms", "Slowest ms")
# How many were right when the rules were first tried on them.
SETS = (
    ("that the rules were made with", SENTENCES, 34),
    ("of the same time, held out", HELD_OUT, 20),
    ("written after the rules", LATER, FIRST_RUN),
)


def row(name: str, cases: list[Sentence], at_first: int) -> tuple[str, ...]:
    right = 0
    times = []
    for case in cases:
        begin = time.perf_counter()
        found = outcome(case)
        times.append(1000 * (time.perf_counter() - begin))
        right += found == wanted_outcome(case)
    return (
        name,
        str(len(cases)),
        str(right),
        str(at_first),
        f"{statistics.median(times):.1f}",
        f"{max(times):.1f}",
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    options = parser.parse_args()
    outcome(SENTENCES[0])  # what is made once
    rows = [row(*each) for each in SETS]
    cells = table(HEADINGS, rows)
    text = (
        f"# Sentences to options of a crawl\n\n{MACHINE}; rules alone, no model. A"
        " sentence is right if all its options are, and if its patterns let in the very"
        " pages of the site that they should. One author wrote all sentences and the"
        f" rules.\n\n{cells}\n"
    )
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
