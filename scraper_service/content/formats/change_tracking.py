"""Compares a page with its last snapshot, and repeats the page if it has not changed.

A page is new, same, changed or removed. The status compares the Markdown without white
space and without the content of frames. A monitor may leave further parts out of the
comparison; the rules for the pages of its checks are those of docs/how-to/monitors.md, Page
states. Runs in the converter pool, because pages and diffs may be large.
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

from scraper_service.content.formats.diff import Hunk, as_json, as_patch, hunks
from scraper_service.content.metadata.dates import utc_text
from scraper_service.content.page_status import EMPTY_SHELL
from scraper_service.content.stored_pages import decompress
from scraper_service.items import PageContent
from scraper_service.options.monitors import Compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scraper_service.options.formats import ChangeTracking
    from scraper_service.options.monitors import FieldRule

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
    request = json.dumps(wanted, sort_keys=True)
    return {
        "print": _digest("".join(text.split())),
        "asked": _digest(request) if "json" in options.modes else None,
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
    at = None if earlier_at is None else datetime.fromtimestamp(earlier_at, UTC)
    answer: dict[str, Any] = {
        "previousScrapeAt": None if at is None else utc_text(at),
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
    return {} if data is None else _object(data)


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def _digest(text: str) -> str:
    encoded = text.encode(errors="surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


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


# -- pages of a monitor's check ----------------------------------------------------------

MAX_SHOWN = 256 * 1024  # characters of a diff as text
MAX_TOLD = 20_000  # characters of a change that a reader gets
MAX_FIELDS = 10_000  # of the data of a page that are compared
OLD, NEW = "previous", "current"
ALL = Compare()
#: Verdicts of pages that are not the page itself.
NO_PAGE = {
    "block_page": "The site blocked the request.",
    "login_wall": "The page asks for a login.",
    "consent_wall": "The page asks for a consent.",
    EMPTY_SHELL: "The page needs its scripts to run.",
}
DATA_MISSING = "No data could be found in the page."


@frozen(kw_only=True)
class ComparedPage:
    """A page of a check, compared with the last snapshot of its URL."""

    #: ``new``, ``same``, ``changed``, ``removed`` or ``error``.
    status: str
    #: The final URL.
    url: str
    scrape_id: str | None
    status_code: int | None
    title: str | None = None
    verdict: str | None = None
    credits: int = 0
    #: The cause of an error.
    error: str | None = None
    #: With ``changed``, JSON of ``text`` and ``json``, and ``truncated`` if it was cut. Text,
    #: as the event loop only passes it on.
    diff: bytes | None = None
    #: With ``changed``, the start of what has changed, for a reader.
    excerpt: str = ""
    #: JSON of the data of the page, always an object; None without the comparison of data.
    data: bytes | None = None
    #: The compressed basis of the next comparison; None if the last one stays.
    body: bytes | None = None


def final_urls(pages: Sequence[bytes]) -> list[str]:
    """Return the final URL of each page. The pages are JSON."""
    return [_metadata(json.loads(page)).get("url", "") for page in pages]


def compare_monitored(
    pages: Sequence[bytes],
    earlier: Sequence[bytes | None],
    mode: str,
    compare: Compare = ALL,
) -> list[ComparedPage]:
    """Compare pages with the last snapshots of their URLs.

    ``pages`` are JSON. ``earlier`` has the ``body`` of the last comparison of each, None for
    a URL without a snapshot. ``mode`` is one of
    :data:`scraper_service.options.monitors.MODES`. A page whose changes do not
    count by ``compare`` is the same, and its snapshot stays: small changes add up.
    """
    return [_compare(*each, mode, compare) for each in zip(pages, earlier, strict=True)]


def _compare(
    text: bytes, earlier: bytes | None, mode: str, compare: Compare
) -> ComparedPage:
    page = json.loads(text)
    metadata = _metadata(page)
    code, verdict = metadata.get("statusCode"), metadata.get("verdict")
    facts: dict[str, Any] = {
        "url": metadata.get("url", ""),
        "scrape_id": metadata.get("scrapeId"),
        "status_code": code,
        "title": _title(metadata),
        "verdict": verdict,
        "credits": metadata.get("creditsUsed", 0),
    }
    if code in GONE and earlier is not None:
        return ComparedPage(status="removed", **facts)
    if error := _error(page, code, verdict, mode):
        return ComparedPage(status="error", error=error, **facts)
    now = {"markdown": page.get("markdown") or "", "data": page.get("json")}
    if mode != "markdown":
        facts["data"] = json_line(_object(now["data"]))
    body = zlib.compress(json.dumps(now).encode(), 1)
    if earlier is None:
        return ComparedPage(status="new", body=body, **facts)
    before = json.loads(zlib.decompress(earlier))
    diff = _diff(before, now, mode, compare)
    if diff is None:
        return ComparedPage(status="same", **facts)
    excerpt = (diff.get("text") or json.dumps(diff["json"]))[:MAX_TOLD]
    return ComparedPage(
        status="changed", body=body, diff=json_line(diff), excerpt=excerpt, **facts
    )


def is_outage(text: bytes) -> bool:
    """Return True if a page is there instead of one that may come back.

    ``text`` is the JSON of the page. An empty shell is the page itself, with its links.
    """
    metadata = _metadata(json.loads(text))
    code, verdict = metadata.get("statusCode"), metadata.get("verdict")
    has_failed = code is not None and code >= 400 and code not in GONE
    return has_failed or (verdict in NO_PAGE and verdict != EMPTY_SHELL)


def _error(
    page: Mapping[str, Any], code: int | None, verdict: str | None, mode: str
) -> str | None:
    """Return why a page cannot be compared, None if it can."""
    if code is not None and code >= 400:
        return f"The site responded with status {code}."
    lacks_data = mode != "markdown" and page.get("json") is None
    # Data may stand in the scripts of a page that shows little text.
    is_read = verdict == EMPTY_SHELL and mode != "markdown" and not lacks_data
    if verdict in NO_PAGE and not is_read:
        return NO_PAGE[verdict]
    return DATA_MISSING if lacks_data else None


def _diff(
    before: Mapping[str, Any], now: Mapping[str, Any], mode: str, compare: Compare
) -> dict[str, Any] | None:
    """Return the diff in a mode, None if nothing that counts differs."""
    found: dict[str, Any] = {}
    old, new = before["markdown"], now["markdown"]
    if mode != "json" and _texts_differ(old, new, compare):
        parts = hunks(old, new)
        found["text"], is_cut = _cut(as_patch(parts, OLD, NEW))
        if is_cut:
            found["truncated"] = True
        if mode == "markdown":
            found["json"] = as_json(_fitting(parts), OLD, NEW)
    if mode != "markdown":
        fields = changed_fields(before["data"], now["data"])
        if relevant_changes(fields, compare):
            found["json"] = fields
    return found or None


def _texts_differ(old: str, new: str, compare: Compare) -> bool:
    """Return True if two texts differ in what counts."""
    if compare.cleans:
        old, new = strip_ignored_parts(old, compare), strip_ignored_parts(new, compare)
    if _print(old) == _print(new):
        return False
    least = compare.min_characters
    return not least or count_changed_characters(hunks(old, new)) >= least


def _print(text: str) -> str:
    """Return a text without white space, which does not count."""
    return "".join(text.split())


def _cut(text: str) -> tuple[str, bool]:
    """Return a diff, cut at the end of a line, and whether it was cut."""
    if len(text) <= MAX_SHOWN:
        return text, False
    end = text.rfind("\n", 0, MAX_SHOWN) + 1
    return text[: end or MAX_SHOWN], True


def _fitting(parts: Sequence[Hunk]) -> list[Hunk]:
    """Return the first hunks, whose lines have at most :data:`MAX_SHOWN` characters."""
    found, size = [], 0
    for part in parts:
        size += sum(len(change.text) for change in part.changes)
        if size > MAX_SHOWN:
            break
        found.append(part)
    return found


def changed_fields(before: Any, now: Any) -> dict[str, dict[str, Any]]:
    """Return the fields that differ by path, with previous and current value.

    Keys are joined by dots, indexes of arrays stand in brackets: ``plans[0].price``. The
    missing side of a field is None.
    """
    old, new = dict(_leaves(before)), dict(_leaves(now))
    return {
        path: {OLD: old.get(path), NEW: new.get(path)}
        for path in {**new, **old}
        if json.dumps(old.get(path)) != json.dumps(new.get(path))
    }


def _leaves(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value that is no container, and empty containers, by path."""
    todo, count = [("", data)], 0
    while todo and count < MAX_FIELDS:
        path, value = todo.pop()
        if isinstance(value, dict) and value:
            todo += [
                (f"{path}.{key}" if path else key, each)
                for key, each in reversed(value.items())
            ]
        elif isinstance(value, list) and value:
            todo += [(f"{path}[{n}]", value[n]) for n in reversed(range(len(value)))]
        else:
            count += 1
            yield path or VALUE, value


def _object(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {VALUE: data}


def _metadata(page: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = page.get("metadata") or {}
    return found


def _title(metadata: Mapping[str, Any]) -> str | None:
    title = metadata.get("title")
    if isinstance(title, list):
        title = title[0] if title else None
    return title if isinstance(title, str) else None
