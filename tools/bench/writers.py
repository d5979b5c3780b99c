"""Compares the two writers of Markdown, native and html2text, on the same cleaned trees.

Fidelity is by the scorers of ``make bench-quality``, with the directories that
:mod:`tools.bench.quality` names; without them only the time of some generated pages is
measured. The time is that of the writer alone.
"""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any

from scraper_service.content.markdown import HTML2TEXT, MARKDOWN_CONVERTERS, NATIVE
from scraper_service.content.markdown.writer import CONVERTERS
from tools.bench import linked
from tools.bench.quality import directory
from tools.bench.quality_pages import wcxb_cases, whole_markdown
from tools.bench.quality_scorers import fidelity
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from collections.abc import Iterable

RESULT = "writers.md"
STRIDE, QUICK_STRIDE = 5, 50  # of the pages of WCXB that are timed
QUICK_PAGES = 10
PASSES = 3  # the fastest counts
# Functions for the scorers, by writer.
FUNCTIONS = {NATIVE: "whole_markdown", HTML2TEXT: "whole_html2text"}
SCORE = re.compile(r"spec (\d+)/(\d+)|macro (\d\.\d+)")


def milliseconds(pages: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return the CPU milliseconds a page of each writer, without parsing and cleaning."""
    spent = dict.fromkeys(MARKDOWN_CONVERTERS, 0.0)
    count = 0
    for html, url in pages:
        count += 1
        for name in spent:
            spent[name] += min(_seconds(name, html, url) for _ in range(PASSES))
    return {name: 1000 * seconds / count for name, seconds in spent.items()}


def _seconds(name: str, html: str, url: str) -> float:
    write, taken = CONVERTERS[name], []

    def timed(*args: Any, **kwargs: Any) -> str:
        start = time.process_time()
        text = write(*args, **kwargs)
        taken.append(time.process_time() - start)
        return text

    CONVERTERS[name] = timed
    try:
        whole_markdown(html, url, name)
    finally:
        CONVERTERS[name] = write
    return sum(taken)


def report(*, is_quick: bool) -> str:
    wcxb, corpora = directory("WCXB"), directory("CORPORA")
    scorers = directory("QUALITY_SCORERS")
    found: dict[str, list[str]] = {}
    if scorers and corpora:
        stride = QUICK_STRIDE if is_quick else 1
        for name in MARKDOWN_CONVERTERS:
            function = f"tools.bench.quality_pages:{FUNCTIONS[name]}"
            for title, lines in fidelity(scorers, corpora, wcxb, stride, function):
                found.setdefault(title, []).append(_score("\n".join(lines)))
    pages = _pages(is_quick=is_quick)
    spent = milliseconds(pages)
    title = f"CPU ms a page, {len(pages)} pages"
    found[title] = [f"{spent[name]:.2f}" for name in MARKDOWN_CONVERTERS]
    about = f"{MACHINE}; whole pages, the same cleaned trees."
    rows = [(measure, *values) for measure, values in found.items()]
    parts = ("# Two writers of Markdown", about)
    return "\n\n".join((*parts, table(("Measure", *MARKDOWN_CONVERTERS), rows))) + "\n"


def _pages(*, is_quick: bool) -> list[tuple[str, str]]:
    if (wcxb := directory("WCXB")) is None:
        made = linked.site("", QUICK_PAGES, "http://127.0.0.2", "mixed")
        return [
            (body.decode(), f"http://127.0.0.2{path}") for path, body in made.items()
        ]
    cases = list(wcxb_cases(wcxb))[:: QUICK_STRIDE if is_quick else STRIDE]
    return [(case.html, case.url) for case in cases]


def _score(output: str) -> str:
    match = SCORE.search(output)
    assert match is not None, output
    return match[3] or f"{match[1]} of {match[2]}"


def main() -> int:
    options = arguments(__doc__, RESULT).parse_args()
    publish(report(is_quick=options.quick), RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
