"""How far a job is, on standard error: a live line on a terminal, plain lines, or none.

``rich`` draws the live line: it knows the width of the terminal, its encoding, NO_COLOR
and how to leave other lines alone. Everywhere else it is not even imported.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import click

from scraper_service.cli.terminal import fitted, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.cli.job_state import Status

PLAIN_S = 5.0  # between two plain lines
SPEED_S = 10.0  # that the speed is the mean of
MIN_BAR = 8  # columns; a shorter bar says nothing


class Progress(Protocol):
    """Tells a person how far a job is."""

    is_live: bool

    def show(self, status: Status, url: str | None) -> None:
        """Show a state, and an address that is being fetched."""

    def pages(self, pages: Sequence[bytes]) -> None:
        """Show that pages came."""

    def say(self, text: str) -> None:
        """Show a sentence that stays."""

    def stop(self) -> None:
        """Show no more; harmless again."""


def progress(*, quiet: bool, to_stdout: bool, lists_pages: bool) -> Progress:
    """Return what fits standard error, and whether standard output is for a program.

    With ``lists_pages`` each page gets a line on a terminal.
    """
    if quiet or not sys.stderr.isatty():
        return Silent(speaks=not quiet)
    if to_stdout or os.environ.get("TERM", "dumb") in {"dumb", "unknown"}:
        return PlainLines()
    return LiveLine(lists_pages)


class Silent:
    """Shows nothing but the sentences, if it ``speaks``."""

    is_live = False

    def __init__(self, *, speaks: bool):
        self._speaks = speaks

    def show(self, status: Status, url: str | None) -> None: ...

    def pages(self, pages: Sequence[bytes]) -> None: ...

    def say(self, text: str) -> None:
        if self._speaks:
            click.echo(text, err=True)

    def stop(self) -> None: ...


class Speed:
    """Pages a second over the last :data:`SPEED_S`."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, ended: int) -> float:
        """Return the speed now that so many pages have ended."""
        now = time.monotonic()
        self._seen.append((now, ended))
        while now - self._seen[0][0] > SPEED_S and len(self._seen) > 2:
            self._seen.popleft()
        first, before = self._seen[0]
        elapsed = now - first
        return (ended - before) / elapsed if elapsed > 0 else 0.0


def counts(status: Status, speed: float, width: int = 80) -> str:
    """Return the numbers of a job; what is not known, or finds no room, is left out."""
    words = [f"{status.pages} done"]
    if status.failed is not None:
        words.append(f"{status.failed} failed")
    if status.pending is not None:
        words.append(f"{status.pending} pending")
    words.append(f"{speed:.1f}/s")
    while len(words) > 1 and len("  ".join(words)) >= width:
        words.pop()
    return "  ".join(words)


def host_of(url: str | None) -> str:
    """Return the host of an address, to be shown."""
    try:
        return printable(urlsplit(url or "").netloc.rpartition("@")[2])
    except ValueError:
        return ""


class PlainLines:
    """A line every :data:`PLAIN_S` seconds, for where standard output is a pipe."""

    is_live = True

    def __init__(self) -> None:
        self._speed = Speed()
        self._next = time.monotonic() + PLAIN_S

    def show(self, status: Status, url: str | None) -> None:
        speed = self._speed.at(status.pages + (status.failed or 0))
        if status.is_active and time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_S
            self.say(f"{counts(status, speed)}  {host_of(url)}".rstrip())

    def pages(self, pages: Sequence[bytes]) -> None: ...

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    def stop(self) -> None: ...


class LiveLine:
    """One line that changes in place, with a bar where there is room for one.

    It narrows with the terminal: the bar goes first, then the host.
    """

    is_live = True

    def __init__(self, lists_pages: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._speed = Speed()
        self._lists_pages = lists_pages
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._live = Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def show(self, status: Status, url: str | None) -> None:
        speed = self._speed.at(status.pages + (status.failed or 0))
        numbers = counts(status, speed, self._console.width)
        self._live.update(self._line(status, numbers, host_of(url)))

    def _line(self, status: Status, numbers: str, host: str) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
        cells: list[Any] = []
        room = self._console.width - len(numbers) - len(host) - 5
        if room >= MIN_BAR:
            ended = status.pages + (status.failed or 0)
            total = max(status.total, 1)
            bar = ProgressBar(
                total,
                min(ended, total),
                width=min(room, 30),
                complete_style="cyan",
                finished_style="green",
            )
            cells.append(bar)
        cells.append(Text(numbers, no_wrap=True, overflow="ellipsis"))
        left = self._console.width - len(numbers) - 3
        if host and left >= 4:
            cells.append(Text(fitted(host, left), no_wrap=True, overflow="ellipsis"))
        for _ in cells:
            line.add_column(no_wrap=True)
        line.add_row(*cells)
        return line

    def pages(self, pages: Sequence[bytes]) -> None:
        if not self._lists_pages:
            return
        for page in pages:
            facts = json.loads(page).get("metadata", {})
            title = facts.get("title")
            words = f"{facts.get('statusCode', '-')} {facts.get('url', '')}"
            if isinstance(title, str):
                words += f"  {title}"
            self.say(fitted(words, self._console.width))

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def stop(self) -> None:
        self._live.stop()
