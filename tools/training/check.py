"""Measures the quality of the model and its rules on pages of unknown sites."""

from __future__ import annotations

import statistics
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from scraper_service.content.html.cleaning import clean
from scraper_service.content.main_content.model import read_declarations
from scraper_service.content.main_content.reduction import judge
from tools.bench.quality_measures import Score, mean_score, score_of, snippets_in
from tools.training.pages import Case, parse_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.main_content.model import Model

PROCESSES = 2
_models: dict[int, Model] = {}


def report(known: Sequence[Case], models: Mapping[int, Model]) -> list[str]:
    """Score each page with the model that was trained without its site.

    Return lines with the measures of the kept text, by kind and by half of the sites.
    """
    _models.update(models)
    with ProcessPoolExecutor(PROCESSES) as pool:  # forked processes share the models
        scores = list(pool.map(_score_page, known, chunksize=20))
    groups: dict[str, list[Score]] = defaultdict(list)
    for case, score in zip(known, scores, strict=True):
        half = "half to check on" if case.held else "half to tune on"
        if case.is_article_set:
            groups["article set"].append(score)
            groups[f"article set, {half}"].append(score)
        else:
            for name in (case.kind, "all", half):
                groups[name].append(score)
            if case.kind != "article":
                groups[f"{case.kind}, {half}"].append(score)
    return [_line(name, own) for name, own in sorted(groups.items())] + [
        _mean(groups, ending)
        for ending in ("", ", half to tune on", ", half to check on")
    ]


def _score_page(case: Case) -> Score:
    document = parse_page(case)
    page = read_declarations(document)
    clean(document)
    verdict = judge(document.body, page, _models[case.fold])
    text = ""
    if verdict is not None:
        pairs = zip(verdict.walk.blocks.text, verdict.keep, strict=True)
        text = "\n".join(own for own, kept in pairs if kept)
    score = score_of(text, case.truth)
    score.wanted = snippets_in(text, case.wanted)
    score.unwanted = snippets_in(text, case.unwanted)
    return score


def _line(name: str, scores: Sequence[Score]) -> str:
    mean = mean_score(scores)
    precision, recall = mean.shingle_precision or 0.0, mean.shingle_recall or 0.0
    shingles = 2 * precision * recall / max(precision + recall, 1e-9)
    return (
        f"{name}: {len(scores)} pages, word F1 {mean.word_f1:.4f}, "
        f"with {mean.wanted:.3f}, without {mean.unwanted:.3f}, shingles {shingles:.4f}"
    )


def _mean(groups: Mapping[str, Sequence[Score]], ending: str) -> str:
    kinds = "collection documentation forum listing product service".split()
    values = [
        mean_score(groups[kind + ending]).word_f1
        for kind in kinds
        if groups.get(kind + ending)
    ]
    return f"mean without articles{ending}: {statistics.mean(values):.4f}"
