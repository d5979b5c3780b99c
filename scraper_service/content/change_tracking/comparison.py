"""Compares a page with its last snapshot, and repeats the page if it has not changed.

A page is new, same, changed or removed. The status compares the Markdown without white
space and without the content of frames. A monitor may leave further parts out of the
comparison. Runs in the converter pool, because pages and diffs may be large.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

import re2
from attrs import frozen

from scraper_service.content.change_tracking.diff import Hunk, as_json, as_patch, hunks
from scraper_service.content.metadata.dates import utc_text
from scraper_service.content.page_status import EMPTY_SHELL
from scraper_service.content.stored_pages import decompress
from scraper_service.items import PageContent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.options.formats import ChangeTracking
    from scraper_service.options.monitors import Compare, FieldRule

GONE = frozenset({404, 410})  # HTTP statuses of a removed page
MAX_DIFF = 5 * 2**20  # characters of a patch
VALUE = "value"  # field name of data that is no object
NO_DIFF = "The diff was left out: it is larger than 5 MiB."
NO_DATA = (
    "The earlier page was stored without the requested fields: their previous values"
    " are null."
)
OTHERWISE = "The previous values were found by the {}, the current ones by the {}."
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
#: Metadata of the fetch, which the new page has of its own. The others stay.
_OF_FETCH = frozenset(
    {
        *("sourceURL", "url", "statusCode", "scrapeId", "sourceScrapeId"),
        *("contentType", "xRobotsTag", "proxyUsed", "engine", "timezone"),
        *("cacheState", "cachedAt", "creditsUsed", "unchanged", "tokensUsed", "error"),
        *("changeStatus", "sitemapLastmod"),
    }
)
_OF_CONTENT = {
    "answeredBy": "answered_by",
    "numPages": "num_pages",
    "totalPages": "total_pages",
    "tokenCount": "token_count",
    "losses": "losses",
}
ERROR_STATUS = 400
COMPARED = frozenset({"markdown", "json"})
_CAPITAL = re.compile("[A-Z]")


@frozen(kw_only=True)
class Comparison:
    """The result of comparing a page with its last snapshot."""

    #: JSON text of ``changeTracking``.
    answer: bytes
    #: Compressed snapshot for the next comparison.
    body: bytes
    #: Warning for the caller.
    warning: str | None = None


def draft(text: str, options: ChangeTracking, data: Any) -> dict[str, Any]:
    """Return the basis of a later comparison, as JSON values.

    ``text`` is the Markdown without the content of frames. ``data`` is the result of the rules
    for the mode ``json``; a language model may replace it.
    """
    wanted: list[Any] = [options.schema, options.prompt]
    if options.selectors is not None:
        wanted.append(options.selectors)
    asked = json.dumps(wanted, sort_keys=True)
    return {
        "print": _digest("".join(text.split())),
        "asked": _digest(asked) if "json" in options.modes else None,
        "data": data,
        "by": "rules",
    }


def compare_pages(
    found: bytes,
    markdown: bytes,
    earlier: bytes | None,
    earlier_at: float | None,
    modes: tuple[str, ...],
    is_gone: bool,
    visibility: str,
) -> Comparison:
    """Compare a page with its last snapshot.

    ``found`` is the JSON text of :func:`draft`, ``markdown`` the JSON text of the
    Markdown. ``earlier`` is the ``body`` of the last comparison, and ``earlier_at`` its
    time in seconds since 1970. Both are None for a first scrape.
    """
    now = {**json.loads(found), "markdown": json.loads(markdown)}
    before = None if earlier is None else json.loads(zlib.decompress(earlier))
    status = _status(now, before, is_gone=is_gone)
    answer: dict[str, Any] = {
        "previousScrapeAt": None if earlier_at is None else _iso(earlier_at),
        "changeStatus": status,
        "visibility": visibility,
    }
    warnings: list[str] = []
    if status == "changed" and before is not None:
        if "git-diff" in modes:
            _add_diff(answer, before["markdown"], now["markdown"], warnings)
        if "json" in modes:
            _add_fields(answer, before, now, warnings)
    return Comparison(
        answer=_encode(answer),
        body=zlib.compress(_encode(now), 1),
        warning=" ".join(warnings) or None,
    )


def _status(
    now: Mapping[str, Any], before: Mapping[str, Any] | None, *, is_gone: bool
) -> str:
    if before is None:
        return "new"
    if is_gone:
        return "removed"
    return "same" if now["print"] == before["print"] else "changed"


def _add_diff(answer: dict[str, Any], old: str, new: str, warnings: list[str]) -> None:
    found = hunks(old, new)
    patch = as_patch(found)
    if len(patch) > MAX_DIFF:
        warnings.append(NO_DIFF)
    else:
        answer["diff"] = {"text": patch, "json": as_json(found)}


def _add_fields(
    answer: dict[str, Any],
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    warnings: list[str],
) -> None:
    """Add the fields whose values differ, with previous and current value."""
    old = _fields(before["data"])
    if before["asked"] != now["asked"]:
        old = {}
        warnings.append(NO_DATA)
    elif before["by"] != now["by"]:
        warnings.append(OTHERWISE.format(before["by"], now["by"]))
    new = _fields(now["data"])
    answer["json"] = {
        name: {"previous": old.get(name), "current": new.get(name)}
        for name in {**new, **old}
        if _encode(old.get(name)) != _encode(new.get(name))
    }


def _fields(data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    return data if isinstance(data, dict) else {VALUE: data}


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def _digest(text: str) -> str:
    encoded = text.encode(errors="surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def _iso(seconds: float) -> str:
    return utc_text(datetime.fromtimestamp(seconds, UTC))


def strip_ignored_parts(text: str, compare: Compare) -> str:
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


def count_changed_characters(found: Sequence[Hunk]) -> int:
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


def relevant_changes(
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


def repeated_content(packed: bytes, *, is_asked: bool) -> PageContent | None:
    """Return the content of a page from its compressed JSON.

    None for a page without text, or one with a warning about the moment of its fetch. With ``is_asked`` a language
    model has read it, and any warning may be about a failure of the model. Runs in the
    converter pool.
    """
    page: dict[str, Any] = json.loads(decompress(packed))
    metadata = page.pop("metadata")
    warning = page.pop("warning", None)
    if "concurrencyLimited" in metadata or (is_asked and warning):
        return None
    if metadata.get("verdict") == EMPTY_SHELL:  # what it embeds may be readable by now
        return None
    facts: dict[str, Any] = {"known": {}, "other": {}}
    if warning:
        facts["warnings"] = (warning,)
    for name, value in metadata.items():
        if name in _OF_CONTENT:
            facts[_OF_CONTENT[name]] = value
        elif name not in _OF_FETCH:
            # Names of our own are in camelCase; an underscore is of a <meta> of the site.
            facts["other" if "_" in name else "known"][name] = value
    values = {
        _CAPITAL.sub(lambda found: "_" + found[0].lower(), name): json_line(value)
        for name, value in page.items()
    }
    return PageContent(values=values, **facts)


def change_since(
    base: bytes | str, values: Mapping[str, bytes]
) -> tuple[str, str | None]:
    """Return ``new``, ``same`` or ``changed`` for a page and an earlier page of its URL.

    ``base`` is the compressed JSON of the earlier page, or the hashes of its texts as JSON,
    which are returned, too. ``values`` are the JSON texts of the new page. Markdown and data
    are compared, or all values without them; white space does not count. An error page of
    the site is no earlier page. Runs in the converter pool.
    """
    if isinstance(base, bytes):
        page: dict[str, Any] = json.loads(decompress(base))
        if page.pop("metadata").get("statusCode", 200) >= ERROR_STATUS:
            return "new", None
        page.pop("warning", None)
        base = json.dumps(_hashes(page))
    known = json.loads(base)
    new = _hashes({_camel(name): json.loads(text) for name, text in values.items()})
    return "same" if new.items() <= known.items() else "changed", base


def _hashes(values: Mapping[str, Any]) -> dict[str, str]:
    """Return hashes of what is compared of a page, by name."""
    names = values.keys() & COMPARED or values.keys()
    return {name: _hash(values[name]) for name in sorted(names)}


def _hash(value: Any) -> str:
    is_text = isinstance(value, str)
    text = "".join(value.split()) if is_text else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def json_line(value: Any) -> bytes:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")
