"""Reading request bodies as JSON, strictly; importable by the converter pool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from attrs import frozen

from scraper_service.errors import InvalidBody, InvalidOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.errors import Issue
    from scraper_service.options.limits import BlockedSites

MAX_BODY_BYTES = 10 * 2**20  # interface document, 1.1
FORM = "multipart/form-data"  # what a file is sent in
MAX_FILE_BYTES = 50 * 2**20  # interface document, 20.1
MAX_FORM_BYTES = MAX_FILE_BYTES + 2**20  # the file, and what says how to read it
# A larger body is read in the converter pool: 1 MB costs about 10 ms.
LARGE_BODY_BYTES = 256 * 1024


def load_json(body: bytes) -> Any:
    """Return the value of a JSON text.

    Raises :exc:`InvalidBody` for what is not JSON, and for what Python's reader takes
    all the same: NaN, text with NUL or lone surrogates, depth without end.
    """
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise InvalidBody("the body is nested too deeply") from None
    except ValueError as error:
        raise InvalidBody(f"the body is not JSON: {error}") from None
    # Only escapes can bring in what UTF-8 and the JSON grammar keep out.
    if "\\u" in text:
        _check_texts(value)
    return value


def check_json(body: bytes) -> None:
    """Raise :exc:`InvalidBody` if ``body`` is not JSON."""
    load_json(body)


def structured(
    body: bytes, structure: Callable[[object], Any]
) -> tuple[Any, list[Issue]]:
    """Return what ``structure`` makes of a JSON text, and what is wrong with it."""
    try:
        return structure(load_json(body)), []
    except InvalidOptions as error:
        return None, list(error.issues)


@frozen
class Asked:
    """What checks before validation need of a body.

    ``pages`` is how many it asks for, at least 1; ``blocked`` the first address of it
    that is of a blocked site.
    """

    pages: int = 1
    blocked: str | None = None


def asked_of(value: object, counted: str, sites: BlockedSites) -> Asked:
    """Return what a body asks for; ``counted`` is ``limit``, ``urls`` or empty."""
    if not isinstance(value, dict):
        return Asked()
    urls = value["urls"] if isinstance(value.get("urls"), list) else []
    limit, pages = value.get("limit"), 1
    if counted == "urls":
        pages = len(urls)
    elif counted == "limit" and isinstance(limit, int | float) and limit == limit // 1:
        pages = int(limit)
    return Asked(max(1, pages), sites.first_of([value.get("url"), *urls]))


def asked_of_text(body: bytes, counted: str, sites: BlockedSites) -> Asked:
    """Do as :func:`asked_of` with a JSON text."""
    return asked_of(load_json(body), counted, sites)


def ignored_of(value: object, names: frozenset[str]) -> list[str]:
    """Return the options of a body that have no effect here, in the order given.

    ``names`` are those of its route; options of ``scrapeOptions`` count too. An option
    that is null, false or empty asks for nothing.
    """
    if not isinstance(value, dict):
        return []
    found = [key for key, given in value.items() if key in names and given]
    if isinstance(scrape := value.get("scrapeOptions"), dict):
        found += [f"scrapeOptions.{key}" for key in ignored_of(scrape, names)]
    return found


def ignored_of_text(body: bytes, names: frozenset[str]) -> list[str]:
    """Do as :func:`ignored_of` with a JSON text."""
    return ignored_of(load_json(body), names)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _check_texts(value: Any) -> None:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo.extend(item)
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, str) and not _is_plain(item):
            raise InvalidBody("the body holds text that is not valid Unicode")


def _is_plain(text: str) -> bool:
    return not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)
