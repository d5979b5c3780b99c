"""Cuts the answers of tools to a number of tokens. The converter pool imports this module.

An answer is an envelope with a list of items, or a single item. Items are given whole as
long as they fit. An item that is too large for a response is returned in parts: its
Markdown, or its JSON as a text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen

from scraper_service.content.formats.summary_and_tokens import count_tokens, parts
from scraper_service.content.losses import describe

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Where the reading of an item goes on: sizes of parts, and the number of the part of
#: each size, from 1. A part of the first size is cut into parts of the second, and so on.
PathT: TypeAlias = list[list[int]]

# Values of a page that are left out before its Markdown is cut.
BULKY = ("rawHtml", "html", "links", "images", "attributes", "actions")
RESERVED = 60  # tokens for what an answer says of itself: the cursor and the rest
LEAST_PART = 25  # tokens
FACTS = (
    *("title", "url", "sourceURL", "statusCode", "engine", "scrapeId"),
    *("tokenCount", "error"),
)
MAX_FACT = 200  # characters
MAX_FAILURES = 20  # of each list of URLs without a page
OTHER_SITES = "EXTERNAL_LINK"  # code of home pages that are only listed


@frozen(kw_only=True)
class AnswerPart:
    """What to give of an answer."""

    #: The response of a route, a JSON object.
    body: bytes
    #: One of :data:`SHAPES`.
    shape: str
    #: The member with the items of the shaped answer; None if it is the only item itself.
    key: str | None
    #: The number of the first item in the answer.
    first: int
    #: The number of the next item to give, and where in it.
    index: int
    path: tuple[tuple[int, int], ...]
    max_tokens: int
    #: True leaves out metadata that a reader seldom needs.
    slim: bool
    #: The errors of a job, as its route lists them; empty without.
    errors: bytes = b""


@frozen(kw_only=True)
class Fitted:
    """An answer that fits, and where the next one goes on."""

    #: JSON text.
    text: str
    #: The number of the next item; None behind the last one of the answer.
    index: int | None
    #: The number behind the last item of the answer.
    end: int
    path: PathT
    #: About so many tokens are left.
    remaining: int
    #: The page of a scrape.
    scrape_id: str | None
    #: True if the route says that more follows the answer.
    has_next: bool


def fit(wanted: AnswerPart) -> Fitted:
    """Return the part of an answer that has at most ``max_tokens`` tokens."""
    found = SHAPES[wanted.shape](json.loads(bytes(wanted.body)))
    scrape_id, has_next = _scrape_id(found), bool(found.get("next"))
    key = wanted.key
    if key is None:
        items, envelope = [found], {}
    else:
        found.pop("next", None)
        items, envelope = found.pop(key, []), found
    items = [_with_lost_parts(item) for item in items]
    if wanted.slim:
        items = [_slim(item) for item in items]
    end = wanted.first + len(items)
    space = wanted.max_tokens - RESERVED
    space -= 0 if key is None else tokens_of({**envelope, key: []})
    failures = _failures(wanted.errors, space // 4) if wanted.errors else {}
    space -= tokens_of(failures) if failures else 0
    index = max(wanted.first, wanted.index)
    path: PathT = [list(step) for step in wanted.path]
    given: list[Any] = []
    following: int | None = None
    for number in range(index, end):
        whole = items[number - wanted.first]
        item = _rest_of(whole, path) if path else whole
        size = tokens_of(item) + 1
        if size <= space:
            given.append(item)
            space -= size
            path = _after(_text_of(whole), path)
            if not path:
                continue
            following = number
        elif given:
            following = number
        else:
            item, path = _cut(whole, path, space)
            given.append(item)
            following = number if path else number + 1
        break
    if following == end:
        following = None
    envelope = {**envelope, **failures}
    answer = {**envelope, key: given} if key is not None else next(iter(given), {})
    left = 0
    if following is not None:
        rest = items[following - wanted.first :]
        if path:
            left = _remaining_tokens(_text_of(rest[0]), path)
            rest = rest[1:]
        left += sum(map(tokens_of, rest))
    return Fitted(
        text=json.dumps(answer, ensure_ascii=False),
        index=following,
        end=end,
        path=path,
        remaining=left,
        scrape_id=scrape_id,
        has_next=has_next,
    )


def _failures(body: bytes, space: int) -> dict[str, Any]:
    """Return the first URLs of a job that failed, and that robots.txt refuses.

    Each list has at most ``space`` tokens. If it is cut, its number of URLs stands beside it.
    """
    found = json.loads(bytes(body))
    failed = [
        {"url": each["url"], "error": each["error"]}
        for each in found["errors"]
        if each.get("code") != OTHER_SITES
    ]
    lists: dict[str, list[Any]] = {
        "failed": failed,
        "robotsBlocked": found["robotsBlocked"],
    }
    cut: dict[str, Any] = {}
    for name, urls in lists.items():
        total = {f"{name}Total": len(urls)}
        shown: list[Any] = []
        for each in urls[:MAX_FAILURES]:
            if tokens_of({name: [*shown, each], **total}) > space:
                break
            shown.append(each)
        if shown:
            cut[name] = shown
        if len(shown) < len(urls) and tokens_of(total) <= space:
            cut |= total
    return cut


def _page(found: dict[str, Any]) -> dict[str, Any]:
    page = dict(found["data"])
    if found.get("warning"):
        page["warning"] = found["warning"]
    return page


def _bare(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "success"}


def _results(found: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a search with all its results in one list."""
    groups = found["data"]
    kept = {k: v for k, v in _bare(found).items() if k not in {"data", "scrapeIds"}}
    kept["results"] = [
        item if kind == "web" else {"source": kind, **item}
        for kind, items in groups.items()
        for item in items
    ]
    return kept


def _check(found: dict[str, Any]) -> dict[str, Any]:
    """Return a check of a monitor without the object around it."""
    return {
        **_bare(found["data"]),
        **({"next": found["next"]} if "next" in found else {}),
    }


SHAPES = {"page": _page, "bare": _bare, "results": _results, "check": _check}


def _scrape_id(found: Any) -> str | None:
    facts = found.get("metadata")
    known = facts.get("scrapeId") if isinstance(facts, dict) else None
    return known if isinstance(known, str) else None


def tokens_of(value: Any) -> int:
    """Return the tokens of a value as JSON text."""
    return count_tokens(json.dumps(value, ensure_ascii=False))


def _with_lost_parts(item: Any) -> Any:
    """Return a page with a line for its ``metadata.losses``, if it has any."""
    facts = item.get("metadata") if isinstance(item, dict) else None
    losses = facts.get("losses") if isinstance(facts, dict) else None
    return {**item, "lost": f"Lost: {describe(losses)}"} if losses else item


def _slim(item: Any) -> Any:
    """Return a page without the metadata that its reader did not ask for."""
    if not isinstance(item, dict) or not isinstance(item.get("metadata"), dict):
        return item
    facts = item["metadata"]
    return {**item, "metadata": {k: facts[k] for k in FACTS if k in facts}}


def _text_of(item: Any) -> str:
    if isinstance(item, dict) and isinstance(item.get("markdown"), str):
        return str(item["markdown"])
    return json.dumps(item, ensure_ascii=False)


def _rest_of(item: Any, path: PathT) -> Any:
    """Return what an item that was begun has at ``path``."""
    return _part(item, _segment(_text_of(item), path))


def _part(item: Any, text: str) -> dict[str, Any]:
    if not isinstance(item, dict) or not isinstance(item.get("markdown"), str):
        return {"part": text}
    facts = item.get("metadata")
    known = facts if isinstance(facts, dict) else item
    names = {k: known[k] for k in ("scrapeId", "url") if k in known}
    return {"markdown": text, **{k: str(v)[:MAX_FACT] for k, v in names.items()}}


def _cut(item: Any, path: PathT, space: int) -> tuple[Any, PathT]:
    """Return as much of an item as fits into ``space`` tokens, and where it goes on."""
    shown = item
    if path:
        text = _segment(_text_of(item), path)
        shown = _part(item, "")
    else:
        text = _text_of(item)
        shown = _without_bulk(item, space)
        if tokens_of(shown) <= space:
            return shown, []
        if not (isinstance(shown, dict) and isinstance(shown.get("markdown"), str)):
            shown = {"part": ""}
    name = "markdown" if "markdown" in shown else "part"
    for facts in (shown, _part(item, "")):
        frame = {**facts, name: ""}
        left = space - tokens_of(frame)
        if left >= LEAST_PART:
            break
    else:
        frame, left = {name: ""}, max(LEAST_PART, space - tokens_of({name: ""}))
    first, size = _fitting(text, left)
    return {**frame, name: first}, _next(_text_of(item), path, size, text)


def _without_bulk(item: Any, space: int) -> Any:
    """Leave out the bulky values of a page, the last ones of :data:`BULKY` first."""
    if not isinstance(item, dict):
        return item
    kept, left_out = dict(item), {}
    for name in BULKY:
        if name in kept and tokens_of(kept) > space:
            left_out[name] = tokens_of(kept.pop(name))
            kept["leftOut"] = {
                n: f"{size} tokens; ask for this format alone"
                for n, size in left_out.items()
            }
    return kept


def _fitting(text: str, space: int) -> tuple[str, int]:
    """Return the first part of ``text`` that fits as JSON, and the size of its parts."""
    size = space
    while True:
        first = parts(text, size)[0]
        used = count_tokens(json.dumps(first, ensure_ascii=False))
        if used <= space or size <= 4:
            return first, size
        size = max(4, min(size - 1, size * space // used))


def _remaining_tokens(text: str, path: PathT) -> int:
    """Return the tokens of ``text`` from ``path`` on."""
    left = 0
    for size, page in path:
        found = parts(text, size)
        left += sum(map(count_tokens, found[page:]))
        text = found[page - 1] if page <= len(found) else ""
    return left + count_tokens(text)


def _segment(text: str, path: Iterable[Iterable[int]]) -> str:
    for size, page in path:
        found = parts(text, size)
        text = found[page - 1] if page <= len(found) else ""
    return text


def _next(whole: str, path: PathT, size: int, segment: str) -> PathT:
    """Return the path behind the first part of ``segment``, in parts of ``size``."""
    if len(parts(segment, size)) > 1:
        return [*path, [size, 2]]
    return _after(whole, path)


def _after(whole: str, path: PathT) -> PathT:
    """Return the path behind the part at ``path``; empty behind the last one."""
    left = [list(step) for step in path]
    while left:
        size, page = left.pop()
        count = len(parts(_segment(whole, left), size))
        if page < count:
            return [*left, [size, page + 1]]
    return []
