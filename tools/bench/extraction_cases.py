"""The cases of the extraction benchmark, and the scores of extracted data.

``tests/extraction_cases`` has the cases: ``page`` (an id), ``schema`` and ``expected``. The
expected values were read from each page by a person. The pages belong to the WCXB corpus,
which is not part of the repository. ``held_out`` marks cases that were unknown when the
rules were written.

An expected value is plain or has one of these forms:

``{"$starts": text}``               a text that starts with ``text``
``{"$contains": text}``             a text that contains ``text``
``{"$any": [...]}``                 any of the values
``{"$first": [...], "$count": n}``  the first items of a list, and its length
``{"$contains_items": [...]}``      items anywhere in a list

Null means that the page has no value. Each plain value counts as a field, and so does each
expected length of a list.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from attrs import define, field

from scraper_service.content.metadata.dates import iso_date

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = Path(__file__).parents[2] / "tests" / "extraction_cases"
COUNT_SLACK = 0.1  # tolerance of a list's length, because of teasers and advertisements

CaseT = dict[str, Any]


@define
class Score:
    """The numbers of right and incorrect fields."""

    right: int = 0
    #: Fields with a value other than the expected one.
    wrong: int = 0
    #: Fields that were not found.
    lost: int = 0
    #: Fields with a value although the page has no value.
    invented: int = 0
    #: A sentence for each incorrect field.
    faults: list[str] = field(factory=list)

    @property
    def fields(self) -> int:
        return self.right + self.wrong + self.lost + self.invented

    def __iadd__(self, other: Score) -> Self:
        self.right += other.right
        self.wrong += other.wrong
        self.lost += other.lost
        self.invented += other.invented
        self.faults += other.faults
        return self


def cases(*, held_out: bool | None = None) -> Iterator[CaseT]:
    """Yield the cases; ``held_out`` selects only held-out cases, or only the others."""
    for path in sorted(CASES.glob("*.json")):
        for case in json.loads(path.read_bytes()):
            if held_out is None or case.get("held_out", False) is held_out:
                yield case


def score(expected: Any, got: Any) -> Score:
    """Compare extracted data with the expected values."""
    made = Score()
    _compare(expected, got, "", made)
    return made


def _compare(expected: Any, got: Any, path: str, made: Score) -> None:
    if isinstance(expected, dict) and not any(k.startswith("$") for k in expected):
        inner = got if isinstance(got, dict) else {}
        for name, value in expected.items():
            _compare(value, inner.get(name), f"{path}/{name}", made)
    elif isinstance(expected, dict) and {"$first", "$contains_items"} & set(expected):
        _compare_list(expected, got, path, made)
    elif isinstance(expected, list):
        _compare_list({"$first": expected, "$count": len(expected)}, got, path, made)
    else:
        _compare_plain(expected, got, path, made)


def _compare_list(expected: CaseT, got: Any, path: str, made: Score) -> None:
    items = got if isinstance(got, list) else []
    for number, value in enumerate(expected.get("$first", ())):
        _compare(
            value,
            items[number] if number < len(items) else None,
            f"{path}/{number}",
            made,
        )
    for value in expected.get("$contains_items", ()):
        tries = []
        for item in items:
            tried = Score()
            _compare(value, item, f"{path}/*", tried)
            tries.append(tried)
        best = max(tries, key=lambda t: (t.right, -t.invented), default=None)
        if best is None:
            best = Score()
            _compare(value, None, f"{path}/*", best)
        made += best
    if (count := expected.get("$count")) is not None:
        if not items:
            made.lost += 1
            made.faults.append(f"{path} has no items, not {count}")
        elif abs(len(items) - count) <= COUNT_SLACK * count:
            made.right += 1
        else:
            made.wrong += 1
            made.faults.append(f"{path} has {len(items)} items, not {count}")


def _compare_plain(expected: Any, got: Any, path: str, made: Score) -> None:
    if _is_same(expected, got):
        made.right += 1
        return
    shown = f"{path}: {_short(got)}, not {_short(expected)}"
    made.faults.append(shown)
    if expected is None:
        made.invented += 1
    elif got is None or got in ([], {}, ""):
        made.lost += 1
    else:
        made.wrong += 1


def _is_same(expected: Any, got: Any) -> bool:
    if isinstance(expected, dict):
        if "$any" in expected:
            return any(_is_alternative(value, got) for value in expected["$any"])
        text = _fold(got)
        if "$starts" in expected:
            return text.startswith(_fold(expected["$starts"])) and bool(text)
        return _fold(expected["$contains"]) in text and bool(text)
    if expected is None:
        return got in (None, [], {}, "")
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, (int, float)):
        return isinstance(got, (int, float)) and abs(expected - got) < 1e-9
    if isinstance(got, (dict, list)) or got is None:
        return False
    if re.fullmatch(r"\d{4}-\d\d-\d\d", expected):
        found = iso_date(str(got), "en", any_year=True)
        return found is not None and found[:10] == expected
    return _fold(expected) == _fold(got)


def _is_alternative(value: Any, got: Any) -> bool:
    if isinstance(value, dict) and "$contains_items" in value:
        made = Score()
        _compare_list(value, got, "", made)
        return made.right == made.fields
    return _is_same(value, got)


def _fold(value: Any) -> str:
    text = " ".join(str(value).lower().split()) if value is not None else ""
    return re.sub(
        r"\s+([.,:;!?])",
        r"\1",
        text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"'),
    ).strip(" .:")


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:90]
