"""What callers ask of a session of the browser: its options, and its steps."""

from __future__ import annotations

from attrs import frozen

from scraper_service.options.actions import Action
from scraper_service.options.crawl import Caller
from scraper_service.options.scrape import Location, Profile, ScrapeOptions

#: The exit codes of a step: done, failed, after its time, no such program.
DONE, FAILED, LATE, NO_PROGRAM = 0, 1, 124, 127
#: The language of lines of ``agent-browser``, which need no shell.
BASH = "bash"


@frozen(kw_only=True)
class SessionOptions(Caller):
    """A session to open."""

    #: Seconds until it ends, 30 to 3600.
    ttl_s: int
    #: Seconds without a call until it ends, 10 to 3600.
    idle_s: int
    has_view: bool
    block_ads: bool
    profile: Profile | None
    location: Location | None
    #: The first page; None is a blank page.
    url: str | None


@frozen(kw_only=True)
class Step(Caller):
    """One step in the page of a session: exactly one of code, prompt and actions."""

    code: str | None
    prompt: str | None
    actions: tuple[Action, ...] | None
    #: The formats of the page after the step, None without one.
    take: ScrapeOptions | None
    #: The language of ``code``.
    language: str
    timeout_s: int

    @property
    def is_program(self) -> bool:
        """Return True for code that runs as a program, in Python or Node."""
        return self.code is not None and self.language != BASH
