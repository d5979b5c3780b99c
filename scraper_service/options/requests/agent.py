"""Request bodies that start an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import catalogue
from scraper_service.options.extraction import AgentOptions
from scraper_service.options.formats import Json
from scraper_service.options.parsing import (
    INVALID,
    Anything,
    Key,
    KeysT,
    Object,
    Pairs,
    Position,
    Text,
    Then,
    choice,
    short,
)
from scraper_service.options.requests import pages
from scraper_service.options.requests.pages import EXPERIMENTAL
from scraper_service.options.requests.values import NO_EFFECT

if TYPE_CHECKING:
    from scraper_service.options.parsing import MakeT

# Options of all pages that the run reads.
_PAGE = ("location", "zero_data_retention", "site_rules")
_NO_THREADS = (
    "must be absent: runs have no threads, so that no earlier one is known here"
)
_DECISIONS = ("approve", "decline")


def _no_thread(value: str) -> Any:
    raise ValueError(f"threadId {_NO_THREADS}; got {short(value)}")


def _mode(value: str) -> str:
    if value != "extract":
        text = "mode must be 'extract': there are no threads to chat in, got"
        raise ValueError(f"{text} {short(value)}")
    return value


def _without_decision(given: tuple[tuple[str, Any], ...]) -> Any:
    """Return the pairs of ``exchange``; refuse what would decide on a payment."""
    issues = [
        Issue(
            "custom",
            (name,),
            f"exchange.{name} must be absent: this service buys no data,"
            f" got {short(value)}",
        )
        for name, value in given
        if name in _DECISIONS
    ]
    if issues:
        raise InvalidOptions(issues)
    return given


_FURTHER_KEYS: KeysT = {
    "mode": Key(
        Then(choice("extract", "chat"), _mode, {"enum": ["extract"]}),
        "mode",
        help="Only extract.",
        default="extract",
    ),
    "threadId": Key(
        Then(Text(), _no_thread, {"not": {}}),
        "thread",
        help="Not available: runs have no threads.",
    ),
    "exchange": Key(
        Then(
            Pairs(Anything()),
            _without_decision,
            {"not": {"anyOf": [{"required": [name]} for name in _DECISIONS]}},
        ),
        help=NO_EFFECT,
    ),
    **catalogue.keys(catalogue.select(catalogue.SCRAPE, *_PAGE), "v2"),
    **pages.CALLER_KEYS,
}


def agent_kind(read_scrape: MakeT) -> Object:
    """Return the kind of a body that starts an agent.

    ``read_scrape`` returns the version's ``ScrapeOptions``.
    """
    defaults = catalogue.defaults(catalogue.AGENT, "v2")

    def make(values: dict[str, Any], at: Position) -> Any:
        values.pop("mode", None)
        page = {name: values.pop(name) for name in _PAGE if name in values}
        scrape = read_scrape({"only_main_content": False, "formats": (), **page}, at)
        if scrape is INVALID:
            return INVALID
        values = {**defaults, **values}
        values["urls"] = tuple(dict.fromkeys(values["urls"]))
        if values["only_urls"] and not values["urls"]:
            text = "strictConstrainToURLs needs urls, got true without any"
            return (at / "strictConstrainToURLs").report("custom", text)
        if values["schema"] is not None:
            # The model that reads a page gives it more time.
            wanted = Json(prompt=values["prompt"], schema=values["schema"])
            scrape = pages.patient(evolve(scrape, formats=(wanted,)))
        return AgentOptions(scrape=scrape, **values)

    keys = {**catalogue.keys(catalogue.AGENT, "v2"), **_FURTHER_KEYS}
    return Object(keys, make, EXPERIMENTAL)
