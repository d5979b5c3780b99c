"""Request bodies of sessions of the browser, see docs/api/browser-sessions.md, Browser sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.options import catalogue, v2_requests, values
from scraper_service.options.formats import ChangeTracking, RawBase64
from scraper_service.options.page_requests import CALLER_KEYS, whole_body
from scraper_service.options.parsing import (
    INVALID,
    BodyReader,
    Bool,
    Key,
    Position,
    Text,
    choice,
    integer,
)
from scraper_service.services.browser_sessions.session_requests import (
    SessionOptions,
    Step,
)

if TYPE_CHECKING:
    from scraper_service.options.parsing import KeysT


USUAL_TTL_S, MOST_TTL_S = 300, 3600
USUAL_STEP_S, MOST_STEP_S = 30, 300
MAX_CODE, MAX_PROMPT = 100_000, 10_000  # characters
LANGUAGES = ("node", "python", "bash")
WORK = ("code", "prompt", "actions")
_REFUSED = {
    ChangeTracking: "changeTracking compares pages of scrapes, not of sessions",
    RawBase64: "rawBase64 is the file of a fetch, and a session has none",
}


def _session(given: dict[str, Any], at: Position) -> Any:
    ttl_s = given.get("ttl_s", USUAL_TTL_S)
    usual: dict[str, Any] = {
        "ttl_s": ttl_s,
        "idle_s": min(ttl_s, USUAL_TTL_S),
        "has_view": True,
        "block_ads": True,
        "profile": None,
        "location": None,
        "url": None,
    }
    return SessionOptions(**{**usual, **given})


SESSION = whole_body(
    {
        "ttl": Key(
            integer(30, MOST_TTL_S),
            "ttl_s",
            help="Seconds until the session ends.",
            default=USUAL_TTL_S,
        ),
        "activityTtl": Key(
            integer(10, MOST_TTL_S),
            "idle_s",
            help="Seconds without a call until the session ends; not given: ttl, at most"
            f" {USUAL_TTL_S}.",
        ),
        "streamWebView": Key(
            Bool(), "has_view", help="False: no pictures of the page.", default=True
        ),
        **catalogue.respell(
            catalogue.SCRAPE, "block_ads", help="Block hosts of advertising."
        ),
        "profile": Key(
            values.PROFILE,
            "profile",
            help="Cookies and storage to begin with, and to store at the end.",
        ),
        "location": Key(
            values.LOCATION, "location", help="The country of the visitor."
        ),
        "url": Key(
            values.URL,
            "url",
            help="The first page; without it the page is blank.",
            is_own=True,
        ),
        **CALLER_KEYS,
    },
    _session,
)


def _step(given: dict[str, Any], at: Position) -> Any:
    work = [name for name in WORK if name in given]
    if len(work) != 1:
        text = f"exactly one of {', '.join(WORK)} must be given, got"
        return at.report("custom", f"{text} {', '.join(work) or 'none'}")
    formats = given.pop("formats", None)
    options = {"actions": given.get("actions", ()), "formats": formats or ()}
    scrape = v2_requests.scrape_options(options, at)
    if scrape is INVALID:
        return INVALID
    for kind, why in _REFUSED.items():
        if scrape.format(kind):
            return (at / "formats").report("custom", why)
    take = None
    if formats is not None:
        take = evolve(scrape, actions=(), max_age_ms=0, store_in_cache=False)
    usual: dict[str, Any] = {
        "code": None,
        "prompt": None,
        "actions": None,
        "language": LANGUAGES[0],
        "timeout_s": USUAL_STEP_S,
    }
    return Step(take=take, **{**usual, **given})


_STEP_KEYS: KeysT = {
    "code": Key(
        Text(MAX_CODE, minimum=1),
        "code",
        help="Lines of agent-browser, or code in Python or Node where the operator lists it.",
    ),
    "prompt": Key(
        Text(MAX_PROMPT, minimum=1),
        "prompt",
        help="What a language model shall do in the page, or find there.",
    ),
    "actions": Key(
        v2_requests.PAGE_KEYS["actions"].kind,
        "actions",
        help="Steps in the page, as in a scrape.",
        is_own=True,
    ),
    "formats": Key(
        v2_requests.PAGE_KEYS["formats"].kind,
        "formats",
        help="The formats of the page after the step, as in a scrape.",
        is_own=True,
    ),
    "language": Key(
        choice(*LANGUAGES), "language", help="That of code.", default=LANGUAGES[0]
    ),
    "timeout": Key(
        integer(1, MOST_STEP_S),
        "timeout_s",
        help="Seconds for the step.",
        default=USUAL_STEP_S,
    ),
    **CALLER_KEYS,
}
STEP = whole_body(_STEP_KEYS, _step)


session_options = BodyReader[SessionOptions](
    __name__, "session_options", SESSION, may_be_empty=True
)


step_request = BodyReader[Step](__name__, "step_request", STEP)
