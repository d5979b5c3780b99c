"""A page and what was kept of it before: new, the same, changed or gone.

Runs in the converter pool: pages and their differences may be large. What is compared is
the Markdown, without white space and what frames hold (interface document, part 9).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.diffs import as_json, as_patch, hunks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.options.formats import ChangeTracking

GONE = frozenset({404, 410})  # of the site: the page was removed
MAX_DIFF = 5 * 2**20  # characters of a patch
VALUE = "value"  # the name of data that are no object
NO_DIFF = "The diff was left out: it is larger than 5 MiB."
NO_DATA = (
    "The earlier page was kept without the fields that are asked for now: their previous"
    " values are null."
)
OTHERWISE = "The previous values were found by the {}, the current ones by the {}."


@frozen(kw_only=True)
class Comparison:
    """What became of a page: ``answer`` is the JSON text of its ``changeTracking``.

    ``body`` is what to keep of it for the next time, compressed; ``remark`` a sentence
    for the caller, None for none.
    """

    answer: bytes
    body: bytes
    remark: str | None = None


def draft(text: str, options: ChangeTracking, data: Any) -> dict[str, Any]:
    """Return what a page is compared by, as JSON values.

    ``text`` is its Markdown without frames, ``data`` what rules extracted in the mode
    ``json``; a language model may put others in their place.
    """
    asked = json.dumps([options.schema, options.prompt], sort_keys=True)
    return {
        "print": _digest("".join(text.split())),
        "asked": _digest(asked) if "json" in options.modes else None,
        "data": data,
        "by": "rules",
    }


def compared(
    found: bytes,
    markdown: bytes,
    earlier: bytes | None,
    earlier_at: float | None,
    modes: tuple[str, ...],
    is_gone: bool,
    visibility: str,
) -> Comparison:
    """Compare a page with the one kept before.

    ``found`` is the JSON of :func:`draft`, ``markdown`` that of the Markdown;
    ``earlier`` is the ``body`` of an earlier comparison and ``earlier_at`` its time,
    None for the first one.
    """
    now = {**json.loads(found), "markdown": json.loads(markdown)}
    before = None if earlier is None else json.loads(zlib.decompress(earlier))
    status = _status(now, before, is_gone=is_gone)
    answer: dict[str, Any] = {
        "previousScrapeAt": None if earlier_at is None else _iso(earlier_at),
        "changeStatus": status,
        "visibility": visibility,
    }
    remarks: list[str] = []
    if status == "changed" and before is not None:
        if "git-diff" in modes:
            _add_diff(answer, before["markdown"], now["markdown"], remarks)
        if "json" in modes:
            _add_fields(answer, before, now, remarks)
    return Comparison(
        answer=_encoded(answer),
        body=zlib.compress(_encoded(now), 1),
        remark=" ".join(remarks) or None,
    )


def _status(
    now: Mapping[str, Any], before: Mapping[str, Any] | None, *, is_gone: bool
) -> str:
    if before is None:
        return "new"
    if is_gone:
        return "removed"
    return "same" if now["print"] == before["print"] else "changed"


def _add_diff(answer: dict[str, Any], old: str, new: str, remarks: list[str]) -> None:
    found = hunks(old, new)
    patch = as_patch(found)
    if len(patch) > MAX_DIFF:
        remarks.append(NO_DIFF)
    else:
        answer["diff"] = {"text": patch, "json": as_json(found)}


def _add_fields(
    answer: dict[str, Any],
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    remarks: list[str],
) -> None:
    """Add the fields whose values differ, with both of them."""
    old = _fields(before["data"])
    if before["asked"] != now["asked"]:
        old = {}
        remarks.append(NO_DATA)
    elif before["by"] != now["by"]:
        remarks.append(OTHERWISE.format(before["by"], now["by"]))
    new = _fields(now["data"])
    answer["json"] = {
        name: {"previous": old.get(name), "current": new.get(name)}
        for name in {**new, **old}
        if _encoded(old.get(name)) != _encoded(new.get(name))
    }


def _fields(data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    return data if isinstance(data, dict) else {VALUE: data}


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def _digest(text: str) -> str:
    encoded = text.encode(errors="surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
