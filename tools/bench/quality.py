"""Measures the quality of main content, Markdown, metadata and PDF text.

``make bench-quality`` writes ``results/quality.md``, with the figures of other tools. The
environment names the data sets and the scorers; missing ones are skipped with a message:

``WCXB``             directory with ``truth.jsonl`` and ``html/``
``CORPORA``          directory with ``article-extraction-benchmark``, ``markdown-specs``,
                     ``readability`` and ``pdfbox``
``QUALITY_SCORERS``  directory with ``score_fidelity.py`` and ``score_meta.py``, for
                     Markdown fidelity and metadata

The model is trained on WCXB. ``python -m tools.training.fit --check`` measures pages of
unknown sites; compare those figures with other tools.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scraper_service.content.formats.summary_and_tokens import summary
from scraper_service.content.words import split
from scraper_service.crawling.converter_pool.converter_process import (
    OBJECTS_A_COLLECTION,
)
from tools.bench.quality_measures import (
    Score,
    mean_score,
    score_of,
    snippets_in,
    text_of,
)
from tools.bench.quality_pages import (
    Case,
    article_cases,
    convert_page,
    pdf_cases,
    pdf_markdown,
    stripped_html2text,
    wcxb_cases,
)
from tools.bench.quality_scorers import fidelity, metadata
from tools.bench.report import MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable

RESULT = Path(__file__).parent / "results" / "quality.md"
SPEED_STRIDE = 5  # every 5th page of WCXB is timed
SUMMARY_STRIDE = 33  # every 33rd page is summarised
PASSES = 3
# The figures of other tools on the same pages, by the same measures.
PEERS = (
    ("trafilatura, no comments", ".959", ".833", ".77 / .07"),
    ("trafilatura, precision", ".964", ".765", ".68 / .04"),
    ("Readability.js + turndown", ".947", ".777", ".71 / .08"),
    ("readability-lxml + html2text", ".953", ".705", ".61 / .05"),
    ("resiliparse", ".916", ".787", ".77 / .15"),
    ("stripping + html2text", ".804", ".763", ".84 / .36"),
    ("crawl4ai fit markdown", ".806", ".767", ".82 / .34"),
    ("rs-trafilatura, as published", ".970", ".859", ""),
)


def content_rows(cases: Iterable[Case]) -> list[str]:
    """Return the table of main content by kind of page."""
    by_kind: dict[str, list[Score]] = {}
    for case in cases:
        text = text_of(convert_page(case.html, case.url).markdown)
        score = score_of(text, case.truth)
        score.wanted = snippets_in(text, case.wanted)
        score.unwanted = snippets_in(text, case.unwanted)
        by_kind.setdefault(case.kind, []).append(score)
    every = [score for scores in by_kind.values() for score in scores]
    kinds = {"all": every} | dict(sorted(by_kind.items()))
    rows = ["| Kind | Pages | Word F1 | With | Without |", "|---|---|---|---|---|"]
    for kind, scores in kinds.items():
        row = mean_score(scores)
        rows.append(
            f"| {kind} | {len(scores)} | {row.word_f1:.3f} | {row.wanted:.3f} |"
            f" {row.unwanted:.3f} |"
        )
    others = [mean_score(s).word_f1 for k, s in by_kind.items() if k != "article"]
    if others:
        rows.append(f"| mean without articles | | {statistics.mean(others):.3f} | | |")
    return rows


def article_rows(cases: Iterable[Case]) -> list[str]:
    """Return F1 over shingles of four words, as in article-extraction-benchmark."""
    scores = [
        score_of(text_of(convert_page(case.html, case.url).markdown), case.truth)
        for case in cases
    ]
    row = mean_score(scores)
    precision, recall = row.shingle_precision, row.shingle_recall
    whole = 2 * precision * recall / (precision + recall)
    return [
        "| Pages | F1 | Precision | Recall |",
        "|---|---|---|---|",
        f"| {len(scores)} | {whole:.3f} | {precision:.3f} | {recall:.3f} |",
    ]


def pdf_rows(directory: Path) -> list[str]:
    """Return word F1 and shingle F1 (which measures order) of PDF files."""
    scores = [score_of(text_of(pdf_markdown(c)), c.truth) for c in pdf_cases(directory)]
    row = mean_score(scores)
    return [
        "| Files | Word F1 | Order (4-shingle F1) |",
        "|---|---|---|",
        f"| {len(scores)} | {row.word_f1:.3f} | {row.shingle_f1:.3f} |",
    ]


def speed_rows(cases: list[Case]) -> list[str]:
    """Return pages per CPU second of the whole pipeline, and of stripping + html2text."""
    rows = [
        "| Way | Pages per CPU-s | Median ms | Slowest ms |",
        "|---|---|---|---|",
    ]
    ways = {
        "stripping + html2text": stripped_html2text,
        "this project: Markdown, links, metadata": convert_page,
    }
    # As in a converter process: loaded objects are exempt from garbage collection.
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)
    for make in ways.values():
        make(cases[0].html, cases[0].url)  # imports and weights
    # In turns, because the speed of the machine varies; the fastest pass of a page counts.
    passes = [
        {name: _time(make, cases) for name, make in ways.items()} for _ in range(PASSES)
    ]
    rates = []
    for name in ways:
        best = list(map(min, *(each[name] for each in passes)))
        rates.append(len(best) / sum(best))
        rows.append(
            f"| {name} | {rates[-1]:.1f} | {1000 * statistics.median(best):.1f} |"
            f" {1000 * max(best):.0f} |"
        )
    rows.append("")
    rows.append(f"Ratio: {rates[1] / rates[0]:.2f}.")
    return rows


def summary_rows(cases: list[Case]) -> list[str]:
    """Return the CPU time of a summary by rules, without the Markdown it starts from."""
    made, times = [], []
    for case in cases:
        page = convert_page(case.html, case.url)
        title = str(page.known.get("title", ""))
        summary(page.markdown, title)  # warm-up: the first call imports modules
        started = time.process_time()
        made.append(summary(page.markdown, title))
        times.append(1000 * (time.process_time() - started))
    counts = [len(list(split(text))) for text in made if text]
    return [
        "| Pages | With a summary | Mean ms | Median ms | Slowest ms | Mean sentences |",
        "|---|---|---|---|---|---|",
        (
            f"| {len(cases)} | {len(counts)} | {statistics.mean(times):.1f} |"
            f" {statistics.median(times):.1f} | {max(times):.0f} |"
            f" {statistics.mean(counts or [0]):.1f} |"
        ),
    ]


def _time(make: Any, cases: list[Case]) -> list[float]:
    times = []
    for case in cases:
        started = time.process_time()
        make(case.html, case.url)
        times.append(time.process_time() - started)
    return times


def peer_rows() -> list[str]:
    """Return the figures of other tools."""
    return [
        "| Tool | AEB F1 | WCXB word F1 | With / without |",
        "|---|---|---|---|",
        *(f"| {' | '.join(peer)} |" for peer in PEERS),
    ]


def report(stride: int) -> list[str]:
    """Measure the data sets in the environment; return the lines of the report."""
    wcxb, corpora = (directory(name) for name in ("WCXB", "CORPORA"))
    scorers = directory("QUALITY_SCORERS")
    lines = [
        "# Content quality",
        "",
        f"{MACHINE}; main content only.",
        "",
    ]

    def section(title: str, rows: list[str]) -> None:
        lines.extend((f"## {title}", "", *rows, ""))

    if wcxb:
        cases = list(wcxb_cases(wcxb))
        section("Main content: WCXB", content_rows(cases[::stride]))
        section("Speed", speed_rows(cases[:: SPEED_STRIDE * stride]))
        section("Summary", summary_rows(cases[:: SUMMARY_STRIDE * stride]))
    if corpora:
        articles = corpora / "article-extraction-benchmark"
        section(
            "Main content: article-extraction-benchmark",
            article_rows(list(article_cases(articles))[::stride]),
        )
        section("PDF: files of PDFBox", pdf_rows(corpora / "pdfbox"))
    section("Other tools, same pages and measures", peer_rows())
    if scorers and corpora:
        for title, rows in fidelity(scorers, corpora, wcxb, stride):
            section(title, ["```", *rows, "```"])
        if wcxb:
            section("Metadata", ["```", *metadata(scorers, wcxb, stride), "```"])
    return lines


def directory(name: str) -> Path | None:
    """Return the directory that a variable of the environment names, if there is one."""
    value = os.environ.get(name)
    if value and Path(value).is_dir():
        return Path(value)
    print(f"{name} names no directory: its measures are skipped", file=sys.stderr)
    return None


def main() -> None:
    """Print the report; store it unless ``--quick`` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="measure every 25th page; store no result"
    )
    quick = parser.parse_args().quick
    text = "\n".join(report(25 if quick else 1))
    print(text)
    if not quick:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
