"""Measures how many crawl prompts the rules turn into the right options, and how fast.

``tools/bench/crawl_prompt_cases.py`` has the prompts, the sites and the expected options.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

from tools.bench.crawl_prompt_cases import HELD_OUT, LATER, SENTENCES
from tools.bench.crawl_prompts import outcome, wanted_outcome
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from tools.bench.crawl_prompt_cases import Sentence

RESULT = "sentences.md"
HEADINGS = ("Sentences", "Number", "Right", "Median ms", "Slowest ms")
SETS = (
    ("that the rules were made with", SENTENCES),
    ("of the same time, held out", HELD_OUT),
    ("written after the rules", LATER),
)


def row(name: str, cases: list[Sentence]) -> tuple[str, ...]:
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
        f"{statistics.median(times):.1f}",
        f"{max(times):.1f}",
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    options = parser.parse_args()
    outcome(SENTENCES[0])  # warm-up
    rows = [row(*each) for each in SETS]
    cells = table(HEADINGS, rows)
    text = (
        f"# Prompts to crawl options\n\n{MACHINE}; rules alone, no language model. A"
        " prompt is right if all its options are right, and if its patterns match exactly"
        " the expected pages of the site. The same author wrote all prompts and the"
        f" rules.\n\n{cells}\n"
    )
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
