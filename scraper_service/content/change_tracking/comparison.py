"""Compares a page with its last snapshot.

A page is new, same, changed or removed. The status compares the Markdown without white
space and without the content of frames. Runs in the converter pool, because pages and
diffs may be large.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.change_tracking.diff import as_json, as_patch, hunks
from scraper_service.content.text.w3c_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.options.formats import ChangeTracking

GONE = frozenset({404, 410})  # HTTP statuses of a removed page
MAX_DIFF = 5 * 2**20  # characters of a patch
VALUE = "value"  # field name of data that is no object
NO_DIFF = "The diff was left out: it is larger than 5 MiB."
NO_DATA = (
    "The earlier page was stored without the requested fields: their previous values"
    " are null."
)
OTHERWISE = "The previous values were found by the {}, the current ones by the {}."


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
