"""What a terminal shows of a job: its counts, failed URLs, log and progress.

Progress goes to standard error: a live line on a terminal, plain lines, or nothing.
``rich`` draws the live line, because it handles the terminal's width, encoding and
NO_COLOR. It is imported only for that line. Commands end on Ctrl-C and closed pipes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import click
from attrs import frozen

from scraper_service.errors import printable
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scraper_service.storage.jobs.job_log import JobLogbook

ACTIVE = ("queued", "scraping")
UUID_LENGTH = 36  # characters
MAX_SHOWN = 3  # ids in the error for an ambiguous prefix
LAST = "last"
# Codes of URLs that a rule left out, before the request or after it.
ROBOTS, EXTERNAL_LINK, CRAWL_DENIAL = "ROBOTS", "EXTERNAL_LINK", "CRAWL_DENIAL"


@frozen
class FailedUrl:
    """A URL of a job that has no page, because of an error or a rule."""

    url: str
    code: str
    error: str

    @classmethod
    def of_robots(cls, url: str) -> FailedUrl:
        return cls(url, ROBOTS, "robots.txt refuses it")

    @property
    def is_left_out(self) -> bool:
        """Return True if a rule left the URL out: this is no error."""
        return self.code in {ROBOTS, EXTERNAL_LINK, CRAWL_DENIAL}


@frozen(kw_only=True)
class Status:
    """The state of a job and the counts of its URLs; None if not known."""

    state: str
    #: The URLs that the job has accepted.
    total: int
    #: The delivered pages.
    pages: int
    failed: int | None = None
    pending: int | None = None
    warning: str | None = None
    error: str | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE


def utc(seconds: float) -> str:
    """Return a time as ISO 8601 with seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def logbook_json(logbook: JobLogbook) -> dict[str, Any]:
    """Return the log of a job as JSON: ``log`` and ``reasons``."""
    return {
        "log": [
            {"time": utc(each.at), "event": each.kind, **each.facts}
            for each in logbook.entries
        ],
        "reasons": [
            {"code": code, "count": count, "error": text}
            for code, count, text in logbook.reasons
        ],
    }


def logbook_lines(logbook: JobLogbook) -> Iterator[str]:
    """Yield the log of a job as text."""
    for each in logbook.entries:
        facts = ", ".join(
            f"{name} {value if isinstance(value, str) else json.dumps(value)}"
            for name, value in each.facts.items()
        )
        yield f"{utc(each.at)}  {each.kind:10}  {facts}".rstrip()
    for code, count, text in logbook.reasons:
        yield f"{count} x {code}: {text}".rstrip(": ")


@frozen
class ShownJob:
    """What `jobs show` prints."""

    #: The job with its counts, as in the list of jobs.
    facts: dict[str, Any]
    failures: list[FailedUrl]
    #: The URLs that robots.txt refuses.
    refused: list[str]
    #: The Scrapy stats of the job.
    stats: dict[str, float]


def choose_id(text: str, ids: Sequence[str]) -> str:
    """Return the id in ``ids`` that begins with ``text``, or the first for ``last``.

    ``ids`` are ordered from the newest job to the oldest. Raises
    :exc:`click.ClickException` if no id or more than one id matches.
    """
    found = ids[:1] if text == LAST else [each for each in ids if each.startswith(text)]
    if not found:
        missing = "there are no jobs" if text == LAST else f"no job has an id {text}..."
        raise click.ClickException(f"{missing}; see `jobs list`")
    if len(found) > 1:
        shown = ", ".join(found[:MAX_SHOWN])
        more = ", ..." if len(found) > MAX_SHOWN else ""
        raise click.ClickException(
            f"{len(found)} jobs have an id {text}...: {shown}{more}"
        )
    return found[0]


def tell_left_out(urls: Iterable[str]) -> None:
    """Print the URLs of a batch that are left out."""
    for url in urls:
        click.echo(f"left out: {printable(str(url), 200)}", err=True)


INTERRUPTED = 130  # exit code of shells for SIGINT: 128 + 2
READER_GONE = 141  # exit code of shells for SIGPIPE: 128 + 13
PLAIN_S = 5.0  # between two plain lines
SPEED_S = 10.0  # window of the mean speed


def end_at_once(code: int) -> NoReturn:
    """End the process at once, without waiting for running work."""
    if util := sys.modules.get("multiprocessing.util"):
        # Otherwise a helper process prints a warning about leaked semaphores.
        util._run_finalizers(0)
    os._exit(code)


def end_when_interrupted() -> None:
    """Make Ctrl-C end the process, until another handler for the signal is set.

    Otherwise Python would raise :exc:`KeyboardInterrupt` during the imports of a run, and
    Scrapy would log a failure.
    """

    def end(*_: object) -> None:
        os.write(2, b"interrupted\n")
        end_at_once(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def leave_pipe() -> NoReturn:
    """End the process silently, after the reader has closed standard output."""
    # Otherwise the interpreter would flush the rest and print an error.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.exit(READER_GONE)


def fit_columns(text: str, columns: int) -> str:
    """Return :func:`printable` text of at most ``columns`` columns of a terminal.

    Wide East Asian characters take two columns. A text that is cut ends in three dots.
    """
    from rich.cells import cell_len, set_cell_size

    clean = printable(text)
    if cell_len(clean) <= columns:
        return clean
    return set_cell_size(clean, max(columns - 3, 0)).rstrip() + "..."[:columns]


class Progress:
    """Shows a person the progress of a job: sentences, and counts if it ``is_live``.

    Counts are a line every :data:`PLAIN_S` seconds. They serve output to standard output,
    and terminals without cursor movement.
    """

    def __init__(self, *, is_live: bool = False):
        self.is_live = is_live
        self._speed = Speed()
        self._next = time.monotonic() + PLAIN_S

    def show(self, status: Status, url: str | None) -> None:
        """Show the state of the job, and a URL that is being fetched."""
        text = counts(status, self._speed.of(status))
        if self.is_live and status.is_active and time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_S
            self.say(f"{text}  {host_of(url)}".rstrip())

    def pages(self, pages: Sequence[bytes]) -> None:
        """Show new pages."""

    def say(self, text: str) -> None:
        """Print a sentence permanently."""
        click.echo(text, err=True)

    def stop(self) -> None:
        """End the display. Further calls have no effect."""


class Silent(Progress):
    """A display of nothing at all."""

    def say(self, text: str) -> None:
        """Print nothing."""


def progress(*, quiet: bool, to_stdout: bool, lists_pages: bool) -> Progress:
    """Return the display that suits standard error.

    ``to_stdout`` is true if pages go to standard output, where a live line could mix with
    them. With ``lists_pages`` each page gets a line on a terminal.
    """
    if quiet:
        return Silent()
    if not sys.stderr.isatty():
        return Progress()
    if to_stdout or os.environ.get("TERM", "dumb") in {"dumb", "unknown"}:
        return Progress(is_live=True)
    return LiveLine(lists_pages)


class Speed:
    """The mean speed over the last :data:`SPEED_S`, in pages per second."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, status: Status) -> float:
        """Return the speed of a job now."""
        now, ended = time.monotonic(), status.pages + (status.failed or 0)
        self._seen.append((now, ended))
        while now - self._seen[0][0] > SPEED_S and len(self._seen) > 2:
            self._seen.popleft()
        first, before = self._seen[0]
        elapsed = now - first
        return (ended - before) / elapsed if elapsed > 0 else 0.0


def counts(status: Status, speed: float) -> str:
    """Return the counts of a job as text. Unknown counts are left out."""
    words = [f"{status.pages} done"]
    if status.failed is not None:
        words.append(f"{status.failed} failed")
    if status.pending is not None:
        words.append(f"{status.pending} pending")
    return "  ".join([*words, f"{speed:.1f}/s"])


def host_of(url: str | None) -> str:
    """Return the host of a URL as printable text."""
    return printable(url_parts(url or "").netloc.rpartition("@")[2])


class LiveLine(Progress):
    """A display of one line that is rewritten, with a progress bar.

    On a narrow terminal the bar is shorter, then the end of the text is left out.
    """

    def __init__(self, lists_pages: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        super().__init__(is_live=True)
        self._lists_pages = lists_pages
        self._console = Console(stderr=True, highlight=False, markup=False)
        column = Column(no_wrap=True, overflow="ellipsis")
        self._live = Bar(
            BarColumn(30, complete_style="cyan", finished_style="green"),
            TextColumn("{task.description}", markup=False, table_column=column),
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def show(self, status: Status, url: str | None) -> None:
        text = counts(status, self._speed.of(status))
        ended = status.pages + (status.failed or 0)
        if not self._live.tasks:
            self._live.add_task("")
        self._live.update(
            self._live.task_ids[0],
            description=f"{text}  {host_of(url)}".rstrip(),
            total=max(status.total, ended, 1),
            completed=ended,
        )

    def pages(self, pages: Sequence[bytes]) -> None:
        if not self._lists_pages:
            return
        for page in pages:
            facts = json.loads(page).get("metadata", {})
            title = facts.get("title")
            words = f"{facts.get('statusCode', '-')} {facts.get('url', '')}"
            if isinstance(title, str):
                words += f"  {title}"
            self.say(fit_columns(words, self._console.width))

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def stop(self) -> None:
        self._live.stop()
