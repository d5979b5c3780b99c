"""The stored state of a run, and what the caller of an agent sees of it as JSON."""

from __future__ import annotations

import copy
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field

from scraper_service.content.formats.llms_txt_and_agents import cut
from scraper_service.content.metadata.dates import utc_text
from scraper_service.content.page_urls import without_fragment
from scraper_service.options.urls import caller_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scraper_service.content.formats.llms_txt_and_agents import AgentPage

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
        """Return the stored state of an operation, or an empty one."""
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
        self, said: str, urls: Sequence[str] = (), no_action: str = NONE
    ) -> None:
        """Note the observation of the round, and the URLs that it has fetched.

        ``no_action`` is the word for a round without an action.
        """
        action = self.pending or {"action": no_action, "input": {}}
        said = cut(said, MAX_SAID)
        self.rounds.append({**action, "said": said, "urls": list(urls)})
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
        told = {"warning": " ".join(self.warnings)} if self.warnings else {}
        found = {**members, **told}
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
