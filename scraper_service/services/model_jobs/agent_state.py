"""The stored state of a run of an agent, and what its model may choose next."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, evolve, field, frozen

from scraper_service.content.formats.llms_txt_and_agents import cut
from scraper_service.content.metadata.dates import utc_text
from scraper_service.content.page_urls import without_fragment
from scraper_service.options.map_search import MAX_QUERY
from scraper_service.options.parsing import short
from scraper_service.options.scrape import PdfParser, SiteRules
from scraper_service.options.urls import caller_url, host_of
from scraper_service.services.model_jobs.running_job import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scraper_service.content.formats.llms_txt_and_agents import AgentPage
    from scraper_service.options.jobs import BatchOptions, RunOptionsT
    from scraper_service.options.scrape import ScrapeOptions


MAX_KNOWN = 2000  # URLs
MAX_LENGTH = 1000  # characters of a URL that was found
MAX_SAID = 3000  # bytes of one observation
NONE = "none"  # the action of a round in which the model failed

_WRITTEN = re.compile(r"https?://[^\s<>\"'`{}|\\^]+", re.IGNORECASE)


@define
class AgentState:
    """The state of an agent or of deep research, in JSON values."""

    #: Rounds that are over: ``action``, ``input``, ``said`` (the observation), and the
    #: ``urls`` that were read.
    rounds: list[dict[str, Any]] = field(factory=list)
    #: The action of the round that runs, with ``input``; None between rounds.
    pending: dict[str, Any] | None = None
    #: What was left out of this action, for the model; empty for nothing.
    left_out: str = ""
    #: URLs that may be read, by :func:`url_key`.
    known: dict[str, str] = field(factory=dict)
    #: Credits for the rounds that are over.
    credits: int = 0
    searches: int = 0
    #: Tokens of the rounds, without those of pages.
    tokens: int = 0
    #: The last sentence for the caller.
    message: str = "The run waits for its start."
    #: All sentences for the caller of deep research, with their time and depth.
    activities: list[dict[str, Any]] = field(factory=list)
    #: Sentences shown to the caller.
    warnings: list[str] = field(factory=list)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> AgentState:
        """Return the stored state of an job, or an empty one."""
        return cls(**copy.deepcopy(memory.get("agent", {})))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def urls(self) -> list[str]:
        """The URLs that were fetched or are fetched now, in this order."""
        pending = self.pending or {}
        running = pending["input"]["urls"] if pending.get("action") == "scrape" else []
        return [*(url for each in self.rounds for url in each["urls"]), *running]

    @property
    def depth(self) -> int:
        """How many rounds have read pages, or do it now."""
        is_reading = (self.pending or {}).get("action") == "scrape"
        return sum(bool(each["urls"]) for each in self.rounds) + is_reading

    @property
    def failures(self) -> int:
        """How many rounds in which the model failed came last."""
        count = 0
        for each in reversed(self.rounds):
            if each["action"] != NONE:
                break
            count += 1
        return count

    def learn(self, urls: Iterable[str], *, are_named: bool = False) -> None:
        """Let the agent read ``urls``, up to :data:`MAX_KNOWN` in all.

        Long ones are left out, unless the caller has named them.
        """
        for url in urls:
            if len(self.known) >= MAX_KNOWN:
                return
            if are_named or len(url) <= MAX_LENGTH:
                self.known.setdefault(url_key(url), url)

    def end_round(
        self, observation: str, urls: Sequence[str] = (), no_action: str = NONE
    ) -> None:
        """Note the observation of the round, and the URLs that it has fetched.

        ``no_action`` is the word for a round without an action.
        """
        action = self.pending or {"action": no_action, "input": {}}
        observation = cut(observation, MAX_SAID)
        self.rounds.append({**action, "said": observation, "urls": list(urls)})
        self.pending, self.left_out = None, ""

    def note(self, kind: str, status: str, message: str) -> None:
        """Add an activity, for example of kind ``search`` and status ``complete``."""
        self.message = message
        self.activities.append(
            {
                "type": kind,
                "status": status,
                "message": message,
                "timestamp": utc_text(datetime.now(UTC)),
                "depth": self.depth,
            }
        )

    def warn(self, text: str | None) -> None:
        """Add a sentence to the warnings, unless it is there."""
        if text and text not in self.warnings:
            self.warnings.append(text)

    def response(self, members: Mapping[str, Any]) -> bytes:
        """Return members of the response and the warnings as a JSON object."""
        warnings = {"warning": " ".join(self.warnings)} if self.warnings else {}
        found = {**members, **warnings}
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()

    def result(self, pages: Sequence[AgentPage], **members: Any) -> bytes:
        """Return the members of the response of an agent as a JSON object."""
        found: dict[str, Any] = {
            "creditsUsed": self.credits,
            "sources": [source_of(page) for page in pages],
            "progress": {
                "rounds": len(self.rounds),
                "pages": len(pages),
                "searches": self.searches,
                "message": self.message,
            },
            **members,
        }
        return self.response(found)


def source_of(page: AgentPage) -> dict[str, Any]:
    """Return a page as it is listed among the sources of a run."""
    found = {"url": page.url, "title": page.title}
    return found | ({"scrapeId": page.scrape_id} if page.scrape_id else {})


def url_key(url: str) -> str:
    """Return what spellings of a URL share, which lead to the same page.

    The host is in lower case. There is no fragment but a route of a script, and no slash
    at the end.
    """
    scheme, mark, rest = without_fragment(url).partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{mark}{host.lower()}{slash}{path}".rstrip("/")


def urls_in_text(text: str) -> list[str]:
    """Return the http and https URLs in a text, without marks of punctuation."""
    found = (_bare(match[0]) for match in _WRITTEN.finditer(text))
    return [url for url in dict.fromkeys(found) if is_url(url)]


def _bare(url: str) -> str:
    """Return a URL without the marks behind it in a text."""
    bare = url.rstrip(".,;:!?]*_")
    is_open = bare.endswith(")") and "(" not in bare
    return bare.rstrip(").,;:!?]*_") if is_open else bare


def is_url(text: str) -> bool:
    """Return True if a request may name this URL."""
    try:
        caller_url(text)
    except ValueError:
        return False
    return True


# -- choices ---------------------------------------------------------------------------

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
            yield batch_of(urls, scrape)
        return
    rules = scrape.site_rules or SiteRules()
    by_host: dict[str, list[str]] = {}
    for url in urls:
        by_host.setdefault(host_of(url), []).append(url)
    for host, own in by_host.items():
        yield batch_of(own, evolve(scrape, site_rules=evolve(rules, only=(host,))))


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
