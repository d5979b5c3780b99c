"""Compares the pages of a monitor's check with the last snapshots of their URLs.

Runs in the converter pool, because pages and diffs may be large. The rules are those of
docs/how-to/monitors.md, Page states.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.change_tracking.comparison import (
    GONE,
    VALUE,
    count_changed_characters,
    json_line,
    relevant_changes,
    strip_ignored_parts,
)
from scraper_service.content.change_tracking.diff import Hunk, as_json, as_patch, hunks
from scraper_service.content.page_status import EMPTY_SHELL
from scraper_service.options.monitors import Compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


MAX_DIFF = 256 * 1024  # characters of a diff as text
MAX_TOLD = 20_000  # characters of a change that a reader gets
MAX_FIELDS = 10_000  # of the data of a page that are compared
OLD, NEW = "previous", "current"
ALL = Compare()
NO_SELECTORS: list[list[str]] = [[], []]
#: Verdicts of pages that are not the page itself.
NO_PAGE = {
    "block_page": "The site blocked the request.",
    "login_wall": "The page asks for a login.",
    "consent_wall": "The page asks for a consent.",
    EMPTY_SHELL: "The page needs its scripts to run.",
}
NO_DATA = "No data could be found in the page."


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
    #: True if the selectors of the comparison leave nothing of the page.
    is_bare: bool = False
    #: With ``changed``, JSON of ``text`` and ``json``, and ``truncated`` if it was cut. Text,
    #: as the event loop only passes it on.
    diff: bytes | None = None
    #: With ``changed``, the start of what has changed, for a reader.
    told: str = ""
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
    now = {
        "markdown": page.get("markdown") or "",
        "data": page.get("json"),
        # What was compared, and by which selectors.
        "text": page.get("comparedText"),
        "selectors": [list(compare.include_selectors), list(compare.exclude_selectors)],
    }
    facts["is_bare"] = compare.selects and not now["text"] and bool(now["markdown"])
    if mode != "markdown":
        facts["data"] = json_line(_object(now["data"]))
    body = zlib.compress(json.dumps(now).encode(), 1)
    if earlier is None:
        return ComparedPage(status="new", body=body, **facts)
    before = json.loads(zlib.decompress(earlier))
    diff = _diff(before, now, mode, compare)
    if diff is None:
        is_known = before.get("selectors", NO_SELECTORS) == now["selectors"]
        return ComparedPage(status="same", body=None if is_known else body, **facts)
    told = (diff.get("text") or json.dumps(diff["json"]))[:MAX_TOLD]
    return ComparedPage(
        status="changed", body=body, diff=json_line(diff), told=told, **facts
    )


def is_outage(text: bytes) -> bool:
    """Return True if a page is there in place of one that may come back.

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
    return NO_DATA if lacks_data else None


def _diff(
    before: Mapping[str, Any], now: Mapping[str, Any], mode: str, compare: Compare
) -> dict[str, Any] | None:
    """Return the diff in a mode, None if nothing that counts differs."""
    found: dict[str, Any] = {}
    old, new = _texts(before, now)
    if mode != "json" and _counts(old, new, compare):
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


def _texts(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str]:
    """Return the texts to compare: the parts that selectors leave, or else all.

    After a change of the selectors the snapshot has other parts, so all is compared once.
    """
    old, new = before.get("text"), now["text"]
    is_same_part = before.get("selectors") == now["selectors"]
    if old is None or new is None or not is_same_part:
        return before["markdown"], now["markdown"]
    return old, new


def _counts(old: str, new: str, compare: Compare) -> bool:
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
    if len(text) <= MAX_DIFF:
        return text, False
    end = text.rfind("\n", 0, MAX_DIFF) + 1
    return text[: end or MAX_DIFF], True


def _fitting(parts: Sequence[Hunk]) -> list[Hunk]:
    """Return the first hunks, whose lines have at most :data:`MAX_DIFF` characters."""
    found, size = [], 0
    for part in parts:
        size += sum(len(change.text) for change in part.changes)
        if size > MAX_DIFF:
            break
        found.append(part)
    return found


def changed_fields(before: Any, now: Any) -> dict[str, dict[str, Any]]:
    """Return the fields that differ by path, with previous and current value.

    Keys are joined by dots, indexes of arrays stand in brackets: ``plans[0].price``. The
    missing side of a field is None.
    """
    old, new = dict(_fields(before)), dict(_fields(now))
    return {
        path: {OLD: old.get(path), NEW: new.get(path)}
        for path in {**new, **old}
        if json.dumps(old.get(path)) != json.dumps(new.get(path))
    }


def _fields(data: Any) -> Iterator[tuple[str, Any]]:
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
