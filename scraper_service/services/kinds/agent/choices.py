"""What a run of an agent may do: its bounds, and the choices of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.options.crawl import BatchOptions
from scraper_service.options.map_search import MAX_QUERY
from scraper_service.options.parsing import short
from scraper_service.options.scrape import PdfParser, SiteRules
from scraper_service.options.urls import host_of
from scraper_service.services.kinds.agent.run_state import url_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scraper_service.options.extraction import RunOptionsT
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.services.kinds.agent.run_state import AgentState

RESULTS = 10  # of one search
MAPPED = 60  # URLs of one map
MOST_A_ROUND = 10  # pages
PDF_PAGES = 20  # of one file
MAX_NAMED = 5  # URLs in a refusal
_STRICT = "strictConstrainToURLs allows scrape and extract only"


@frozen
class RunBounds:
    """The most pages and rounds of a run, and when it ends at the latest."""

    pages: int
    #: Of an agent, actions; of deep research, searches with their pages.
    rounds: int
    #: A time of :func:`time.monotonic`.
    until: float
    #: The error of a run that goes on then. None: it writes from what it has read.
    late: str | None = None


class RunStopped(Exception):
    """Raised when a run fails. The text is for its caller, ``reason`` its stopReason."""

    def __init__(self, reason: str, text: str):
        self.reason = reason
        super().__init__(text)


def read_options(options: RunOptionsT) -> ScrapeOptions:
    """Return how the pages of a run are scraped."""
    formats: tuple[Any, ...] = options.page_formats
    parsers: tuple[Any, ...] = (PdfParser(max_pages=PDF_PAGES),)
    return evolve(options.scrape, formats=formats, parsers=parsers)


def batches(options: RunOptionsT, urls: Sequence[str]) -> Iterator[BatchOptions]:
    """Yield the batches of a round: one, or one per host if only these may be read."""
    scrape = read_options(options)
    if not options.only_urls:
        if urls:
            yield _batch(urls, scrape)
        return
    rules = scrape.site_rules or SiteRules()
    by_host: dict[str, list[str]] = {}
    for url in urls:
        by_host.setdefault(host_of(url), []).append(url)
    for host, own in by_host.items():
        yield _batch(own, evolve(scrape, site_rules=evolve(rules, only=(host,))))


def _batch(urls: Sequence[str], scrape: ScrapeOptions) -> BatchOptions:
    return BatchOptions(
        urls=tuple(urls), scrape=scrape, max_concurrency=None, webhook=None
    )


SEARCH, MAP, SCRAPE, EXTRACT = "search", "map", "scrape", "extract"
ACTIONS = (SEARCH, MAP, SCRAPE, EXTRACT)
#: The schema of the model's answer; an action has only some of its keys.
CHOICE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "query": {"type": "string", "description": "For search: a few words."},
        "url": {"type": "string", "description": "For map: a page of the site."},
        "urls": {
            "type": "array",
            "items": {"type": "string"},
            "description": "For scrape: the pages to read, the best first.",
        },
    },
    "required": ["action"],
}


class ChoiceRefused(Exception):
    """Raised for an action that is not run; the text is an observation for the model."""


@frozen
class AgentChoice:
    """An action that may be run."""

    action: str
    #: ``query``, ``url`` or ``urls``, as the action needs it.
    input: Mapping[str, Any]
    #: What was left out of the action, for the model; empty for nothing.
    left_out: str = ""


def read_choice(
    value: Any, state: AgentState, *, is_strict: bool, has_pages: bool
) -> AgentChoice:
    """Return the action in a model's answer, a value by :data:`CHOICE_SCHEMA` or null.

    With ``is_strict`` the agent may not look for pages. Raises :exc:`ChoiceRefused`.
    """
    if not isinstance(value, dict):
        raise ChoiceRefused(f"an action must be a JSON object, got {short(value)}")
    action = value.get("action")
    if action not in ACTIONS:
        allowed = ", ".join(ACTIONS)
        raise ChoiceRefused(f"action must be one of {allowed}, got {short(action)}")
    if is_strict and action in {SEARCH, MAP}:
        raise ChoiceRefused(f"{action} was refused: {_STRICT}")
    if action == SEARCH:
        return _search(value.get("query"), state)
    if action == MAP:
        return _map(value.get("url"), state)
    if action == SCRAPE:
        return _scrape(value, state)
    if not has_pages:
        raise ChoiceRefused("extract was refused: no page has been read")
    return AgentChoice(EXTRACT, {})


def _search(query: Any, state: AgentState) -> AgentChoice:
    text = query.strip()[:MAX_QUERY] if isinstance(query, str) else ""
    if not text:
        raise ChoiceRefused("search was refused: it has no query")
    found = AgentChoice(SEARCH, {"query": text})
    _require_new(found, state)
    return found


def _map(url: Any, state: AgentState) -> AgentChoice:
    known = state.known.get(url_key(url)) if isinstance(url, str) else None
    if known is None:
        raise ChoiceRefused(f"map was refused: {_unknown([url])}")
    found = AgentChoice(MAP, {"url": known})
    _require_new(found, state)
    return found


def _require_new(choice: AgentChoice, state: AgentState) -> None:
    for each in state.rounds:
        if (each["action"], each["input"]) == (choice.action, choice.input):
            raise ChoiceRefused(f"{choice.action} was refused: it was done before")


def _scrape(value: Mapping[str, Any], state: AgentState) -> AgentChoice:
    given = value.get("urls") or [value.get("url")]
    texts = [url for url in given if isinstance(url, str) and url.strip()]
    if not texts:
        raise ChoiceRefused("scrape was refused: it has no urls")
    read = {url_key(url) for url in state.urls}
    keys = dict.fromkeys(url_key(url.strip()) for url in texts)
    urls = [state.known[k] for k in keys if k in state.known and k not in read]
    lies = [key for key in keys if key not in state.known]
    again = [key for key in keys if key in read]
    left_out = [_unknown(lies)] if lies else []
    left_out += [f"read before: {_list_urls(again)}"] if again else []
    if not urls:
        raise ChoiceRefused(f"scrape was refused: {'; '.join(left_out)}")
    return AgentChoice(SCRAPE, {"urls": urls}, "; ".join(left_out))


def _unknown(urls: list[Any]) -> str:
    """Return why URLs are refused that the model has made up."""
    return (
        f"not in the request, the results, the maps or the pages: {_list_urls(urls)}."
        " Only URLs from there may be used"
    )


def _list_urls(urls: list[Any]) -> str:
    more = len(urls) - MAX_NAMED
    named = ", ".join(short(url) for url in urls[:MAX_NAMED])
    return named + (f" and {more} more" if more > 0 else "")
