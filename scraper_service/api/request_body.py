"""Strict reading of JSON bodies. The converter pool imports this module."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from attrs import frozen

from scraper_service.errors import ConverterDied, InvalidBody, InvalidOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
    from scraper_service.errors import Issue
    from scraper_service.options.limits import BlockedSites

OptionsT = TypeVar("OptionsT")

MAX_BODY_BYTES = 10 * 2**20  # docs/api/README.md, Transport
JSON = "application/json"
FORM = "multipart/form-data"  # the type of uploads
MAX_FILE_BYTES = 50 * 2**20  # docs/api/scrape.md, Uploads
MAX_FORM_BYTES = MAX_FILE_BYTES + 2**20  # the file, and what says how to read it
# Larger bodies are read and validated in the converter pool. As JSON 1 MB takes up to 50 ms;
# the validation of 1 kB takes up to 6 ms, if it is full of selectors.
LARGE_BODY_BYTES = 64 * 1024
SIMPLE_BODY_BYTES = 1024
TOO_DEEP = "the body is nested too deeply"


def load_json(body: bytes) -> Any:
    """Return the value of a JSON text.

    Raises :exc:`InvalidBody` for what is not JSON, and for what Python's reader takes
    all the same: NaN, numbers without end, text with NUL or lone surrogates, depth without end.
    """
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise InvalidBody(TOO_DEEP) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidBody(f"the body is not JSON: {error}") from None
    except InvalidBody:
        raise
    except ValueError:  # of Python's int()
        digits = sys.get_int_max_str_digits()
        raise InvalidBody(f"a number has more than {digits} digits") from None
    # Only escapes can bring in what UTF-8 and the JSON grammar keep out.
    if "\\u" in text:
        _check_texts(value)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidBody(f"the number {text[:40]} is too large")
    return value


def check_json(body: bytes) -> None:
    """Raise :exc:`InvalidBody` if ``body`` is not JSON."""
    load_json(body)


def structure_json(
    body: bytes, structure: Callable[[object], Any]
) -> tuple[Any, list[Issue]]:
    """Return the result of ``structure`` for a JSON text, and the errors of the text."""
    try:
        return structure_value(load_json(body), structure), []
    except InvalidOptions as error:
        return None, list(error.issues)


def structure_value(value: object, structure: Callable[[object], Any]) -> Any:
    """Return what ``structure`` makes of the value of a body.

    Raises :exc:`InvalidOptions`, and :exc:`InvalidBody` for a depth that ends its calls.
    """
    try:
        return structure(value)
    except RecursionError:
        raise InvalidBody(TOO_DEEP) from None


@frozen
class BodyFacts:
    """The facts of a body that checks need before its validation."""

    #: The number of requested pages, at least 1.
    pages: int = 1
    #: The first URL of a blocked site.
    blocked: str | None = None


def body_facts(value: object, counted: str, sites: BlockedSites) -> BodyFacts:
    """Return the facts of a body. ``counted`` is ``limit``, ``urls`` or empty."""
    if not isinstance(value, dict):
        return BodyFacts()
    urls = value["urls"] if isinstance(value.get("urls"), list) else []
    limit, pages = value.get("limit"), 1
    if counted == "urls":
        pages = len(urls)
    elif counted == "limit" and isinstance(limit, int | float) and limit == limit // 1:
        pages = int(limit)
    return BodyFacts(max(1, pages), sites.first_of([value.get("url"), *urls]))


def body_facts_of_text(body: bytes, counted: str, sites: BlockedSites) -> BodyFacts:
    """Return the same as :func:`body_facts` for a JSON text."""
    return body_facts(load_json(body), counted, sites)


def find_ignored(value: object, names: frozenset[str]) -> list[str]:
    """Return the options of a body that have no effect, in the order of the body.

    ``names`` are the options without effect of the route, also in
    ``scrapeOptions``; those of an object follow its name and a dot. Options that are null,
    false or empty are left out.
    """
    if not isinstance(value, dict):
        return []
    found = []
    for key, given in value.items():
        if key in names and given:
            found.append(key)
        if isinstance(given, dict):
            inner = (f"{key}.{name}" for name in given if given[name])
            found += [path for path in inner if path in names]
    if isinstance(scrape := value.get("scrapeOptions"), dict):
        found += [f"scrapeOptions.{key}" for key in find_ignored(scrape, names)]
    return found


def find_ignored_in_text(body: bytes, names: frozenset[str]) -> list[str]:
    """Return the same as :func:`find_ignored` for a JSON text."""
    return find_ignored(load_json(body), names)


def _refuse(constant: str) -> NoReturn:
    raise InvalidBody(f"the body is not JSON: {constant}")


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


def warning_of(ignored: list[str]) -> str | None:
    """Return a warning that names options without effect; None without any."""
    if not ignored:
        return None
    noun = "This option has" if len(ignored) == 1 else "These options have"
    return f"{noun} no effect here: {', '.join(ignored)}."


class Body:
    """A request's body. The converter pool reads large ones, and validates all but simple ones.

    Until ``team_id`` is known, all bodies share one queue of the pool. ``note`` is called
    with the result of each reading.
    """

    def __init__(
        self,
        raw: bytes,
        pool: ConverterPool,
        note: Callable[[object], None],
        team_id: str | None = None,
    ):
        self._note = note
        self._raw = raw
        self._pool = pool
        self._value: Any = None
        self.team_id = team_id

    async def check(self) -> None:
        """Raise :exc:`InvalidBody` if the body is not JSON. It may be empty."""
        if not self._raw.strip():
            return
        if len(self._raw) <= LARGE_BODY_BYTES:
            self._value = load_json(self._raw)
        else:
            await self._run(check_json)

    async def read(self, structure: Callable[[object], OptionsT]) -> OptionsT:
        """Return the result of ``structure``, an importable function, for the value.

        Raises :exc:`InvalidOptions`.
        """
        options: OptionsT
        if len(self._raw) <= SIMPLE_BODY_BYTES:
            options = structure_value(self._value, structure)
        else:
            options, issues = await self._run(structure_json, structure)
            if issues:
                raise InvalidOptions(issues)
        self._note(options)
        return options

    async def read_facts(self, counted: str, sites: BlockedSites) -> BodyFacts:
        """Return what :func:`body_facts` finds in it."""
        if len(self._raw) <= (SIMPLE_BODY_BYTES if sites else LARGE_BODY_BYTES):
            return body_facts(self._value, counted, sites)
        found: BodyFacts = await self._run(body_facts_of_text, counted, sites)
        return found

    async def warning(self, names: frozenset[str]) -> str | None:
        """Return a warning that names options without effect; None without any.

        ``names`` are those of the route, see
        :func:`~scraper_service.options.page_requests.ignored_names`. They are accepted so
        that public clients work.
        """
        if len(self._raw) <= LARGE_BODY_BYTES:
            found = find_ignored(self._value, names)
        else:
            found = await self._run(find_ignored_in_text, names)
        return warning_of(found)

    async def _run(self, function: Callable[..., Any], *args: object) -> Any:
        try:
            return await self._pool.run(
                function, self._raw, *args, team_id=self.team_id, may_refuse=True
            )
        except TimeoutError:
            raise InvalidBody("the body takes too long to read") from None
        except MemoryError:
            raise InvalidBody("the body takes too much memory to read") from None
        except ConverterDied:
            raise InvalidBody("the body cannot be read") from None
