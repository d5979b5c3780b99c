"""What a language model may choose in a round of an agent, and the check of it.

The model is not trusted: it reads pages of strangers. Every action is one of four, and
every URL must have been found before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.options.map_search import MAX_QUERY
from scraper_service.options.parsing import short
from scraper_service.services.kinds.agent.run_state import url_key

if TYPE_CHECKING:
    from scraper_service.services.kinds.agent.run_state import AgentState

SEARCH, MAP, SCRAPE, EXTRACT = "search", "map", "scrape", "extract"
ACTIONS = (SEARCH, MAP, SCRAPE, EXTRACT)
MAX_NAMED = 5  # URLs in a refusal
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
_STRICT = "strictConstrainToURLs allows scrape and extract only"


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
