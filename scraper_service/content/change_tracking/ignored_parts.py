"""Leaves out of a comparison what a monitor does not count as a change."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

import re2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.change_tracking.diff import Hunk
    from scraper_service.options.monitors.compare import Compare, FieldRule

_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
#: Dates and times as numbers, and with English names of months; ages such as ``2 days ago``.
_DATES = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}}(?:\.\d+)?)?(?:Z|[+-]\d{{2}}:?\d{{2}})?)?"
    r"|\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\.? {_MONTH}\.?,? \d{{4}}"
    rf"|\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:, ?| )\d{{4}}"
    r"|\b\d{1,2}:\d{2}(?::\d{2})?(?: ?[ap]m)?\b"
    r"|\b\d{1,4} (?:second|minute|hour|day|week|month|year)s? ago\b",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"\d(?:[\d.,\u00a0\u202f']*\d)?")
_INDEX = re.compile(r"\[\d+\]")


def counted_text(text: str, compare: Compare) -> str:
    """Return a text without the parts that do not count.

    Patterns are applied line by line, so that one cannot take the whole page.
    """
    for pattern in compare.ignore_patterns:
        lines = text.split("\n")
        text = "\n".join(re2.sub(pattern, "", line) for line in lines)
    if compare.ignore_dates:
        text = _DATES.sub("", text)
    if compare.ignore_numbers:
        text = _NUMBERS.sub("", text)
    return text


def changed_characters(found: Sequence[Hunk]) -> int:
    """Return how many characters differ.

    Of lines in a row those between the first and the last difference count; of the old and
    the new text the longer one. White space does not count.
    """
    total = 0
    for hunk in found:
        for is_same, changes in groupby(hunk.changes, lambda x: x.sign == " "):
            if is_same:
                continue
            both = list(changes)
            old, new = (
                "".join("".join(x.text.split()) for x in both if x.sign == sign)
                for sign in "-+"
            )
            total += _difference(old, new)
    return total


def _difference(old: str, new: str) -> int:
    most = min(len(old), len(new))
    start = next((n for n in range(most) if old[n] != new[n]), most)
    most -= start
    end = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    return max(len(old), len(new)) - start - end


def counted_fields(
    found: Mapping[str, dict[str, Any]], compare: Compare
) -> dict[str, dict[str, Any]]:
    """Return the changes of fields that count, of all that differ by path."""
    rules = {rule.path: rule for rule in compare.fields}
    return {
        path: change
        for path, change in found.items()
        if _counts(change, rules.get(path) or rules.get(_INDEX.sub("[]", path)))
    }


def _counts(change: Mapping[str, Any], rule: FieldRule | None) -> bool:
    if rule is None:
        return True
    if rule.ignore:
        return False
    old, new = (_number(change[side]) for side in ("previous", "current"))
    if old is None or new is None:
        return True
    difference = abs(new - old)
    if difference < rule.min_difference:
        return False
    return difference * 100 >= rule.min_percent * abs(old)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
