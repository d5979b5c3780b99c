"""Trains the main content model on pages whose content is known.

``python -m tools.training.fit --wcxb DIR --articles DIR`` writes ``weights.json``.

``--check`` writes no file. It divides the sites into five parts and scores each part with
a model trained on the other four. It prints the measures by kind and by half of the sites.

Requires ``pip install catboost rapidfuzz scikit-learn``; takes about fifteen minutes.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np
from attrs import define

from scraper_service.content import main_content
from scraper_service.content.main_content.blocks import Tables
from scraper_service.content.main_content.model import (
    KINDS,
    WEIGHTS,
    ClassParts,
    Forest,
    Model,
    Table,
    kind_of,
    structure_signs,
    table,
)
from scraper_service.content.passes import name_parts
from tools.training.check import report
from tools.training.forests import as_numbers, grow
from tools.training.pages import (
    EMPTY,
    FOLDS,
    Case,
    cases,
    known_share,
    labels,
    site,
    walk_page,
)
from tools.training.tables import counts, kind_names, kind_weights, tables

TREES = 200
PROCESSES = 2
MAX_SIZE = 200  # words up to which a block's weight grows
OTHER_KINDS = 1.5  # weight of a page other than an article; most pages are articles
LEAST_KNOWN = 0.3  # minimum share of the known content's words found on the page
THRESHOLD = 0.75  # factor on the bar of the best F1; loses less content for little F1
ALL = -1  # a fold without pages: all pages are used


@define
class Page:
    """A page with features from tables that were counted without its site."""

    #: The page and its known content.
    case: Case
    #: The features of its blocks.
    made: Table
    #: Per block, 1 for content.
    label: Any
    #: Per block, its weight in training.
    weight: Any
    #: True if the kind of the page was classified correctly.
    is_kind_right: bool
    #: True if the page is used for training.
    good: bool


@define
class Learned:
    """The counted tables for each omitted fold, and the labels of each page."""

    #: The scores of names, words and tags, by omitted fold.
    tables: dict[int, dict[str, dict[str, float]]]
    #: The weights of the signs of page kinds, by omitted fold.
    kinds: dict[int, dict[str, list[float]]]
    #: Per page, the share of known content in each block.
    labels: list[Any]
    #: Per page, True if the page is used for training.
    good: list[bool]


@click.command()
@click.option("--wcxb", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--articles", type=click.Path(path_type=Path, exists=True))
@click.option("--check", is_flag=True, help="Print the quality on unknown sites.")
def main(wcxb: Path, articles: Path | None, *, check: bool) -> None:
    """Train on the pages, and write or check the weights."""
    known = list(cases(wcxb, articles))
    learned = count(known)
    say(f"counted {len(known)} pages")
    pages = add_features(known, learned)
    say("features made")
    if check:
        for line in report(known, by_fold(pages, learned)):
            say(line)
        return
    weights = {
        "source": SOURCE,
        "threshold": THRESHOLD,
        "tables": learned.tables[ALL],
        "kinds": learned.kinds[ALL],
        "forest": grow_forest(pages, ALL),
    }
    to = Path(main_content.__file__).with_name(WEIGHTS)
    to.write_text(as_text(weights), encoding="utf-8")
    say(f"wrote {to}")


SOURCE = (
    "Learned from WCXB: Web Content eXtraction Benchmark (Murrough Foley, "
    "github.com/Murrough-Foley/web-content-extraction-benchmark, CC BY 4.0) and from "
    "article-extraction-benchmark (Zyte, MIT). Made by tools/training/fit.py."
)


def count(known: list[Case]) -> Learned:
    """Count names, words and signs without each fold in turn, and over all folds."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        facts = list(pool.map(_count_page, known, chunksize=20))
    good = [share >= LEAST_KNOWN for *_, share in facts]
    learned = Learned({}, {}, [label for _, _, label, _ in facts], good)
    for fold in range(ALL, FOLDS):
        own = [n for n, case in enumerate(known) if case.fold != fold and good[n]]
        learned.tables[fold] = tables((site(known[n].url), facts[n][1]) for n in own)
        learned.tables[fold]["kind_names"] = kind_names(
            (site(known[n].url), known[n].kind, facts[n][1]) for n in own
        )
        learned.kinds[fold] = kind_weights(
            [facts[n][0] for n in own], [known[n].kind for n in own]
        )
    return learned


def _count_page(case: Case) -> tuple[set[str], dict[str, dict[str, float]], Any, float]:
    walk, page = walk_page(case, EMPTY)
    label = labels(walk, case.truth)
    names = dict.fromkeys(walk.nodes.shape)
    every = ClassParts(sorted({part for name in names for part in name_parts(name)}))
    signs = set(page.signs) | structure_signs(walk, every)
    return signs, counts(walk, label), label, known_share(walk, case.truth)


def add_features(known: list[Case], learned: Learned) -> list[Page]:
    """Return each page with features from the tables of the other folds."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        made = pool.map(
            _add_features,
            known,
            learned.labels,
            [learned.tables[case.fold] for case in known],
            [learned.kinds[case.fold] for case in known],
            learned.good,
            chunksize=20,
        )
        pages = [page for page in made if page is not None]
    right = sum(page.is_kind_right for page in pages)
    say(f"kinds told right: {right / len(pages):.3f} of {', '.join(KINDS)}")
    return pages


def _add_features(
    case: Case, share: Any, tables: dict[str, dict[str, float]], kinds: Any, good: bool
) -> Page | None:
    walk, page = walk_page(case, Tables(**tables))
    if not len(walk.blocks):
        return None
    known = ClassParts.of(kinds)
    kind = kind_of(page.signs | structure_signs(walk, known), kinds)
    words = np.array(walk.blocks.words)
    size = (np.minimum(words, MAX_SIZE) + 2.0) * (share >= 0)
    return Page(
        case,
        table(walk, kind.chances),
        (share > 0.5).astype(int),
        size / max(size.sum(), 1.0) * (1.0 if case.kind == "article" else OTHER_KINDS),
        kind.name == case.kind,
        good,
    )


def by_fold(pages: list[Page], learned: Learned) -> dict[int, Model]:
    """Return for each fold the model trained on the other folds."""
    return {
        fold: Model(
            Tables(**learned.tables[fold]),
            learned.kinds[fold],
            Forest.read(grow_forest(pages, fold)),
            THRESHOLD,
        )
        for fold in range(FOLDS)
    }


def grow_forest(pages: list[Page], fold: int) -> dict[str, Any]:
    """Train a forest on the usable pages outside the fold."""
    own = [page for page in pages if page.case.fold != fold and page.good]
    names = list(own[0].made.columns)
    forest = grow(
        [page.made.matrix(names) for page in own],
        [page.label for page in own],
        [page.weight for page in own],
        TREES,
    )
    say(f"grew {TREES} trees of {len(own)} pages")
    return as_numbers(forest, names)


def as_text(weights: dict[str, Any]) -> str:
    """Return JSON with a line for each tree, name and word."""
    parts = []
    for name, value in weights.items():
        if name == "forest":
            trees = ",\n".join(json.dumps(tree) for tree in value.pop("trees"))
            head = json.dumps(value)[:-1]
            text = f'{head}, "trees": [\n{trees}]}}'
        elif name == "tables":
            tables = ",\n".join(
                f'"{table}": {{\n{_lines_of(rows)}}}' for table, rows in value.items()
            )
            text = f"{{\n{tables}}}"
        elif name == "kinds":
            text = f"{{\n{_lines_of(value)}}}"
        else:
            text = json.dumps(value)
        parts.append(f'"{name}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines_of(rows: dict[str, Any]) -> str:
    return ",\n".join(
        f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value)}"
        for key, value in sorted(rows.items())
    )


def say(text: str) -> None:
    """Print progress to standard error."""
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
