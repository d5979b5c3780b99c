"""Request bodies that start agent, extract, llms.txt and deep research jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve, frozen

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import catalogue, urls
from scraper_service.options.extraction import (
    MAX_QUESTION,
    SITE,
    AgentOptions,
    ExtractOptions,
    LlmsTextOptions,
    ResearchOptions,
)
from scraper_service.options.formats import Json, Markdown
from scraper_service.options.parsing import (
    INVALID,
    PROMPT,
    Anything,
    Bool,
    Key,
    KeysT,
    Object,
    Pairs,
    Position,
    Text,
    Then,
    ValueKind,
    choice,
    short,
)
from scraper_service.options.wire import pages
from scraper_service.options.wire.jobs import split_urls
from scraper_service.options.wire.values import NO_EFFECT, query_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.options.parsing import MakeT

LLMS_CACHE_MS = 172_800_000  # 2 days, as a scrape of v2
# Keys beside those of the catalogue, in both versions. The agent's model has no effect,
# its prompt has.
_FURTHER_KEYS: KeysT = {
    "agent": Key(
        Object(
            {
                "model": Key(choice("FIRE-1", "v3-beta"), help=NO_EFFECT),
                "prompt": Key(
                    PROMPT, "prompt", help="What to find, in a request without prompt."
                ),
            }
        ),
        "agent",
        help="The old place of a prompt.",
    ),
    "urlTrace": Key(Bool(), help=NO_EFFECT),
    **catalogue.keys(catalogue.select(catalogue.SCRAPE, "site_rules"), "v2"),
    **pages.CALLER_KEYS,
}
# Options of all pages that the run reads.
_PAGE = ("location", "zero_data_retention", "site_rules")
_NO_THREADS = (
    "must be absent: runs have no threads, so that no earlier one is known here"
)
_DECISIONS = ("approve", "decline")


@frozen
class ExtractRequest:
    """A request that starts an extract. ``invalid_urls`` are those of a batch."""

    options: ExtractOptions
    invalid_urls: tuple[str, ...] | None = None


def extract_kind(
    version: Literal["v1", "v2"],
    scrape_keys: KeysT,
    read_scrape: MakeT,
    *,
    ignores_invalid: bool,
) -> Object:
    """Return the kind of a body that starts an extract.

    ``ignores_invalid`` is the version's default of ``ignoreInvalidURLs``.
    """
    whole = pages.scrape_kind(scrape_keys, read_scrape, only_main_content=False)
    defaults = catalogue.defaults(catalogue.EXTRACT, version)

    def make(values: dict[str, Any], at: Position) -> Any:
        return _extract(
            {"ignore_invalid_urls": ignores_invalid, **values}, at, whole, defaults
        )

    keys = {
        **catalogue.keys(catalogue.EXTRACT, version),
        "ignoreInvalidURLs": Key(
            Bool(),
            "ignore_invalid_urls",
            help="Leave out URLs that are not valid.",
            default=ignores_invalid,
        ),
        **_FURTHER_KEYS,
        "scrapeOptions": Key(whole, "scrape", help="How each page is scraped."),
    }
    return pages.whole_body(keys, make)


def _extract(
    values: dict[str, Any],
    at: Position,
    scrape_kind: ValueKind,
    defaults: Mapping[str, Any],
) -> Any:
    scrape = values.pop("scrape", None) or scrape_kind.read({}, at / "scrapeOptions")
    lenient = values.pop("ignore_invalid_urls")
    agent = values.pop("agent", {})
    values.setdefault("prompt", agent.get("prompt"))
    if scrape is INVALID or (scrape := pages.protect(scrape, values, at)) is INVALID:
        return INVALID
    given = values.get("urls", ())
    if not given and not values.get("prompt"):
        return at.report("custom", "urls or prompt is required")
    good, bad = split_urls(given, _url_or_site)
    if bad and not (lenient and good):
        for index, message in bad.items():
            (at / "urls" / index).report("custom", message)
        return INVALID
    # The extraction gives the page more time.
    wanted = Json(
        prompt=values.get("prompt"),
        schema=values.get("schema"),
        system_prompt=values.get("system_prompt"),
    )
    scrape = pages.patient(evolve(scrape, formats=(wanted,)))
    values["urls"] = tuple(dict.fromkeys(good))
    options = ExtractOptions(scrape=scrape, **{**defaults, **values})
    left_out = tuple(given[index] for index in bad) if lenient else None
    return ExtractRequest(options, left_out)


def _url_or_site(text: str) -> str:
    """Return a URL, or the URL of a site with :data:`SITE` at its end."""
    whole = text.rstrip()
    if not whole.endswith(SITE):
        return urls.caller_url(text)
    return urls.caller_url(whole[: -len(SITE)]).rstrip("/") + SITE


def llms_text_kind(scrape_kind: ValueKind) -> Object:
    """Return the kind of a body that starts an llms.txt job."""
    defaults = catalogue.defaults(catalogue.LLMS_TEXT, "v1")

    def make(values: dict[str, Any], at: Position) -> Any:
        values = {**defaults, **values}
        max_age_ms = LLMS_CACHE_MS if values["use_cache"] else 0
        scrape = scrape_kind.read({}, at)
        scrape = evolve(scrape, formats=(Markdown(),), max_age_ms=max_age_ms)
        return LlmsTextOptions(scrape=scrape, **values)

    keys = {**catalogue.keys(catalogue.LLMS_TEXT, "v1"), **pages.CALLER_KEYS}
    return pages.whole_body(keys, make)


def research_kind(extraction: ValueKind, scrape_kind: ValueKind) -> Object:
    """Return the kind of a body that starts deep research.

    ``extraction`` is the kind of ``jsonOptions``.
    """
    defaults = catalogue.defaults(catalogue.RESEARCH, "v1")

    def make(values: dict[str, Any], at: Position) -> Any:
        topic = values.pop("topic", None)
        query = values.pop("query", topic)
        if query is None:
            return (at / "query").missing("string")
        if topic not in {None, query}:
            text = "topic is the old name of query: only one of them is allowed"
            return (at / "topic").report("custom", text)
        given = values.pop("json", None)
        chosen = tuple(dict.fromkeys(values.pop("formats", ("markdown",))))
        if given is not None and "json" not in chosen:
            text = "jsonOptions is allowed only with the format json"
            return (at / "jsonOptions").report("custom", text)
        wanted = Json(**{"prompt": query, **(given or {})})
        scrape = evolve(scrape_kind.read({}, at), formats=(Markdown(),))
        values = {**defaults, **values, "formats": chosen}
        return ResearchOptions(query=query, scrape=scrape, json=wanted, **values)

    keys = {
        **catalogue.keys(catalogue.RESEARCH, "v1"),
        "topic": Key(
            Then(Text(MAX_QUESTION), query_text, {"pattern": r"\S"}),
            "topic",
            help="The old name of query.",
        ),
        "jsonOptions": Key(extraction, "json", help="The options of the format json."),
        **pages.CALLER_KEYS,
    }
    return pages.whole_body(keys, make)


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


_AGENT_KEYS: KeysT = {
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

    keys = {**catalogue.keys(catalogue.AGENT, "v2"), **_AGENT_KEYS}
    return pages.whole_body(keys, make)
