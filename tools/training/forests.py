"""Trains the forest of symmetric trees, and converts it to plain numbers."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from catboost import CatBoostClassifier, Pool

if TYPE_CHECKING:
    from collections.abc import Sequence

DEPTH = 6
RATE = 0.08  # learning rate
MAX_ROWS = 150  # blocks sampled per page
SEED = 5


def grow(
    rows: Sequence[Any], labels: Sequence[Any], weights: Sequence[Any], trees: int
) -> CatBoostClassifier:
    """Train ``trees`` trees; each item of ``rows`` is a page's blocks by features."""
    random = np.random.default_rng(SEED)
    picked: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for page, label, weight in zip(rows, labels, weights, strict=True):
        count = len(label)
        pick = np.arange(count)
        if count > MAX_ROWS:
            pick = np.sort(random.choice(count, MAX_ROWS, replace=False))
        picked[0].append(page[pick])
        picked[1].append(label[pick])
        picked[2].append(weight[pick] * (count / len(pick)))
    data, target, weight = map(np.concatenate, picked)
    classifier = CatBoostClassifier(
        iterations=trees,
        depth=DEPTH,
        learning_rate=RATE,
        border_count=32,
        l2_leaf_reg=5,
        rsm=0.5,
        bootstrap_type="Bernoulli",
        subsample=0.7,
        thread_count=1,
        random_seed=SEED,
        verbose=0,
        allow_writing_files=False,
    )
    classifier.fit(Pool(data, target, weight=weight))
    return classifier


def as_numbers(classifier: CatBoostClassifier, names: Sequence[str]) -> dict[str, Any]:
    """Return the forest in the format of the weights file; see ``model.Forest``."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "forest.json"
        classifier.save_model(str(path), format="json")
        grown = json.loads(path.read_bytes())
    scale, bias = grown["scale_and_bias"]
    trees = []
    for tree in grown["oblivious_trees"]:
        conditions = [
            [names[split["float_feature_index"]], _short(split["border"])]
            for split in tree["splits"] or ()
        ]
        leaves = [round(scale * value, 3) for value in tree["leaf_values"]]
        while len(conditions) < DEPTH:  # fill up with conditions that are never met
            conditions.append([names[0], 1e9])
            leaves += leaves
        trees.append({"if": conditions, "then": leaves})
    used = Counter(c[0] for tree in trees for c in tree["if"])
    offset = bias[0] if isinstance(bias, list) else bias
    return {
        "features": [name for name in names if name in used],
        "depth": DEPTH,
        "bias": round(offset, 4),
        "trees": trees,
    }


def _short(number: float) -> float:
    return float(f"{number:.5g}")
