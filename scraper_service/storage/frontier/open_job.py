"""An active job in a transaction that changes its rows: counts, limit, events, credits.

A URL is in exactly one state. ``open`` counts pending and leased URLs, ``done`` and
``failed`` count ended URLs. The counts on the job row change only together with the
rows. A URL becomes pending only while open URLs and delivered pages are below the page
limit. Sitemap files are rows of the same table with a count of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, select, update

from scraper_service.discovery.canonical_urls import crawl_key
from scraper_service.discovery.sitemap import GUESS, MAX_FILES
from scraper_service.errors import OutOfCredits
from scraper_service.options.jobs import CrawlOptions, options_from_json
from scraper_service.options.urls import origin, robots_url
from scraper_service.storage import job_secrets, page_cache
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.accounts.credits import (
    ADD_CHARGE,
    charge_row,
    give_back,
    take,
)
from scraper_service.storage.files.page_sources import add_sources
from scraper_service.storage.frontier import refused_links
from scraper_service.storage.frontier.job_counts import (
    add_pages,
    add_refused,
    add_texts,
)
from scraper_service.storage.frontier.job_warnings import (
    JobWarning,
    add_warning,
    explain_result,
    remove_warnings,
)
from scraper_service.storage.frontier.links import (
    count_passing,
    end_rows,
    insert_links,
    outcomes_with_lease,
)
from scraper_service.storage.job_records import (
    Commit,
    JobState,
    Link,
    RowState,
    UrlKind,
)
from scraper_service.storage.schema import event, frontier, job, page
from scraper_service.storage.transactions import (
    IN_ORDER,
    Insertion,
    Statement,
    inline,
    note,
    now_of,
    rows_in,
)
from scraper_service.storage.webhooks import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, Select

    from scraper_service.storage.files.page_sources import Packed
    from scraper_service.storage.job_records import Outcome


ROBOTS = "robots"  # code of URLs that robots.txt refuses
ROBOTS_CODES = (ROBOTS, "ROBOTS_UNREACHABLE")
EXPIRY_EVERY_S = 60.0  # between two changes of the expiry of a running job
MAX_SKIPPED = 1_000_000  # rows of refused URLs in one job

#: Attributes of :class:`OpenJob` with a column of the same name.
_COUNTED = (
    *("open", "done", "failed", "pages", "held", "skipped", "sitemaps"),
    *("sitemap_files", "base", "warning", "credits", "reserved", "deliveries"),
    *("page_counts", "paused_at", "started_at"),
)
_FURTHER = ("state", "page_limit", "completed_at", "expires_at")
_WRITE_JOB = Statement(
    update(job)
    .where(job.c.id == bindparam("job_id"))
    .values({name: bindparam(name) for name in (*_COUNTED, *_FURTHER)})
    .values(stored=job.c.stored + bindparam("more_bytes"))
)
_ADD_PAGES = Insertion(
    page, "id", "job_number", "seq", "size", "frontier_id", "body", "whole"
)
_ADD_EVENTS = Insertion(event, "job_number", "kind", "page_id", "row_id", "at")


class OpenJob:
    """An active job in a transaction that changes its rows, with its counts.

    ``row`` is the locked row of the job. :meth:`write` stores the counts.
    """

    def __init__(self, connection: Connection, row: Row[Any]):
        self._connection = connection
        self._row = row
        self.at = now_of(connection)
        self.job_id: str = row.id
        self.number: int = row.number
        self.kind: str = row.kind
        self.team_id: str = row.team_id
        self.limit: int | None = row.page_limit
        self.open: int = row.open
        self.done: int = row.done
        self.failed: int = row.failed
        self.pages: int = row.pages
        self.held: int = row.held
        self.skipped: int = row.skipped
        self.sitemaps: int = row.sitemaps
        self.sitemap_files: int = row.sitemap_files
        self.base: str | None = row.base
        self.warning: str | None = row.warning
        self.credits: int = row.credits
        self.page_price: int | None = row.page_price  # None for an unlimited team
        self.is_step: bool = row.parent_id is not None  # the parent pays for its pages
        self.reserved: int = row.reserved
        self.refused: Counter[str] = Counter()  # URLs by the URL of their robots.txt
        self.deliveries: int = row.deliveries
        self.page_counts: str | None = row.page_counts
        self.paused_at: float | None = row.paused_at
        self.retention_s: float = row.retention_s
        self.options: str = row.options
        #: True while rows of a source job are missing.
        self.is_copying: bool = row.copying is not None
        self.started_at: float | None = row.started_at
        self.more_bytes = 0  # stored by this transaction

    @property
    def free(self) -> int | None:
        """The number of URLs that may become pending, None for any number."""
        if self.limit is None:
            return None
        return max(0, self.limit - self.open - self.pages)

    def apply(self, outcomes: list[Outcome], packed: Packed) -> dict[int, Commit]:
        """Store outcomes, with what is ``packed`` of them.

        Return the commits of accepted outcomes, by row.
        """
        leased = outcomes_with_lease(self._connection, outcomes)
        stale = self._stale(leased)
        accepted = [outcome for outcome in leased if outcome.row_id not in stale]
        if not accepted:
            return stale
        duplicates: dict[int, str] = {}
        for outcome in accepted:
            if outcome.page is None or outcome.redirected_to is None:
                continue
            other = self._row_of(outcome.redirected_to[0])
            if other is not None and other.state in {RowState.DONE, RowState.ALIAS}:
                duplicates[outcome.row_id] = str(other.url)
            else:
                self._take_over(*outcome.redirected_to, other, outcome)
        delivered = [
            x for x in accepted if x.page is not None and x.row_id not in duplicates
        ]
        self._acknowledge([x for x in accepted if not x.goes_on], duplicates)
        self._store_pages(delivered, packed)
        bare = [x for x in accepted if x.page is None and x.kept]
        self.more_bytes += add_sources(
            self._connection, self.job_id, self.number, bare, packed.responses
        )
        page_cache.store_snapshots(
            self._connection, [x.snapshot for x in delivered if x.snapshot]
        )
        texts = [outcome.text for outcome in delivered if outcome.text is not None]
        add_texts(self._connection, self.number, texts)
        ids = {outcome.row_id for outcome in delivered}
        self._tell_of(accepted, ids)
        for outcome in accepted:
            self.base = outcome.base or self.base
            for text in outcome.warnings:
                self.warn(JobWarning.SITEMAP, text=text)
        links = [link for outcome in accepted for link in outcome.links]
        added = self._add(links)
        self.let_in()
        return stale | {
            outcome.row_id: Commit(
                True, outcome.row_id in ids, JobState.SCRAPING, added
            )
            for outcome in accepted
        }

    def _stale(self, outcomes: list[Outcome]) -> dict[int, Commit]:
        tracked = [(x, x.snapshot) for x in outcomes if x.page and x.snapshot]
        last = page_cache.lock_snapshots(
            self._connection, [snapshot for _, snapshot in tracked]
        )
        stale = {}
        for outcome, snapshot in tracked:
            key = snapshot.team_id, snapshot.key
            if last[key] == snapshot.version:
                last[key] += 1
            else:
                stale[outcome.row_id] = Commit(
                    False, False, JobState.SCRAPING, is_stale=True
                )
        return stale

    def _acknowledge(self, accepted: list[Outcome], duplicates: dict[int, str]) -> None:
        rows = []
        for outcome in accepted:
            other = duplicates.get(outcome.row_id)
            state = outcome.end_state
            rows.append(
                {
                    "id": outcome.row_id,
                    "state": int(state),
                    "page_id": outcome.page_id,
                    "code": "duplicate" if other else outcome.code,
                    "error": f"duplicate of {other}" if other else outcome.error,
                    "status": outcome.status,
                    "losses": None if other else outcome.loss_kinds,
                    "text_hashes": outcome.text_hashes,
                    "ended_at": self.at,
                }
            )
            if outcome.kind is UrlKind.SITEMAP:
                self.sitemaps -= 1
            else:
                self.open -= 1
                self.done += state is RowState.DONE
                self.failed += state is RowState.FAILED
                self.skipped += state is RowState.SKIPPED
            if state is RowState.SKIPPED and self.kind == "crawl":
                self.warn(JobWarning.ROBOTS)
            if outcome.code in ROBOTS_CODES and outcome.final is not None:
                self.refused[robots_url(origin(outcome.final[1]))] += 1
        end_rows(self._connection, rows)
        self._forget([each.row_id for each in accepted if each.code == GUESS])

    def _forget(self, guesses: list[int]) -> None:
        """Delete the URLs of guessed sitemaps that are missing: they are no failures."""
        if guesses:
            rows = frontier.c.id.in_(guesses)
            self._connection.execute(delete(frontier).where(rows))
            self.sitemap_files -= len(guesses)

    def _row_of(self, key: int) -> Any:
        columns = frontier.c
        return self._connection.execute(
            select(columns.id, columns.state, columns.url).where(
                columns.job_number == self.number, columns.key == key
            )
        ).one_or_none()

    def _take_over(
        self, key: int, url: str, other: Row[Any] | None, outcome: Outcome
    ) -> None:
        """Let a page stand for the URL that it was redirected to, which has no page.

        ``other`` is the row of that URL. It is not fetched any more.
        """
        if other is None:
            self.skipped -= refused_links.take_out(
                self._connection,
                self.number,
                key,
                lambda url: crawl_key(self._crawl_options, url),
            )
            alias = [Link(key, url, 0, found_on=outcome.row_id)]
            self.skipped += insert_links(
                self._connection, self.number, alias, RowState.ALIAS
            )
            return
        change = update(frontier).where(frontier.c.id == other.id)
        if other.state == RowState.FAILED:
            # It stays an error of the job, but a retry finds the page and leaves it.
            self._connection.execute(change.values(page_id=outcome.page_id))
            return
        # A running fetch of the other URL loses its lease and stores nothing.
        self._connection.execute(
            change.values(state=RowState.ALIAS, owner=None, found_on=outcome.row_id)
        )
        self.open -= other.state in {RowState.PENDING, RowState.LEASED}
        self.held -= other.state == RowState.HELD
        self.skipped += other.state != RowState.SKIPPED

    @cached_property
    def _crawl_options(self) -> CrawlOptions:
        options = options_from_json("crawl", json.loads(self.options))
        assert isinstance(options, CrawlOptions)
        return options

    def _store_pages(self, outcomes: list[Outcome], packed: Packed) -> None:
        if not outcomes:
            return
        pages, charges = [], []
        for outcome in outcomes:
            found = packed.pages[outcome.row_id]
            self.more_bytes += found.stored_size
            pages.append(
                {
                    "id": outcome.page_id,
                    "job_number": self.number,
                    "seq": self.pages,
                    "size": found.size,
                    "frontier_id": outcome.row_id,
                    "body": found.body,
                    "whole": found.whole,
                }
            )
            self.pages += 1
            if self.is_step:
                continue
            charges.append(
                charge_row(
                    outcome.page_id,
                    self.team_id,
                    self.job_id,
                    self._row.key_id,
                    outcome.credits,
                    self.at,
                )
            )
            self.credits += outcome.credits
            if self.page_price is not None:
                self.reserved -= outcome.credits
        if facts := [outcome.facts for outcome in outcomes if outcome.facts]:
            self.page_counts = add_pages(self.page_counts, facts)
        _ADD_PAGES.run_many(self._connection, pages)
        self.more_bytes += add_sources(
            self._connection, self.job_id, self.number, outcomes, packed.responses
        )
        ADD_CHARGE.run_many(self._connection, charges)

    def _tell_of(self, accepted: list[Outcome], delivered: set[int]) -> None:
        ended = [x for x in accepted if x.row_id in delivered or x.has_failed]
        if not ended:
            return
        events = [
            {
                "job_number": self.number,
                "kind": "page",
                "page_id": outcome.page_id if outcome.row_id in delivered else None,
                "row_id": None if outcome.row_id in delivered else outcome.row_id,
                "at": self.at,
            }
            for outcome in ended
        ]
        _ADD_EVENTS.run_many(self._connection, events)
        self._tell([("page", outcome.row_id, None) for outcome in ended])

    def note(self, kind: str, detail: str | None = None) -> None:
        """Write an event of the job and its webhook delivery. ``detail`` is JSON."""
        note(self._connection, self.job_id, kind, self.at, detail)
        self._tell([(kind, None, detail)])

    def _tell(self, news: list[tuple[str, int | None, str | None]]) -> None:
        self.deliveries = tell(
            self._connection,
            self.job_id,
            self._row.hook_events,
            self.deliveries,
            news,
            self.at,
        )

    def _add(self, links: Sequence[Link]) -> int:
        if not links:
            return 0
        sitemaps: list[Link] = []
        refused: list[Link] = []
        pages: list[Link] = []
        for link in links:
            if link.kind == UrlKind.SITEMAP:
                sitemaps.append(link)
            else:
                (pages if link.code is None else refused).append(link)
        if (most := MAX_FILES - self.sitemap_files) < len(sitemaps):
            sitemaps = sitemaps[:most]
            self.warn(JobWarning.MANY_SITEMAPS)
        connection, number = self._connection, self.number
        files = insert_links(connection, number, sitemaps, RowState.PENDING)
        self.sitemaps += files
        self.sitemap_files += files
        if refused or self.skipped:
            pages, refused, listed = refused_links.add(
                connection, number, pages, refused, lists=self.skipped < MAX_SKIPPED
            )
            self.skipped += listed
        if self.skipped:
            self.skipped -= count_passing(connection, number, pages)
        fits = self.free is None or len(pages) <= self.free
        state = RowState.PENDING if fits else RowState.HELD
        added = insert_links(connection, number, pages, state)
        if fits:
            self.open += added
        else:
            self.held += added
        if self.skipped < MAX_SKIPPED:
            self._add_refused(refused)
        return added + files

    def _add_refused(self, links: list[Link]) -> None:
        of_site: dict[str, list[Link]] = {}
        for link in links:
            site = robots_url(origin(link.url)) if link.code == ROBOTS else ""
            of_site.setdefault(site, []).append(link)
        for site, some in of_site.items():
            added = insert_links(self._connection, self.number, some, RowState.SKIPPED)
            self.skipped += added
            if site:
                self.refused[site] += added
                self.warn(JobWarning.ROBOTS)

    def warn(self, code: JobWarning, **data: Any) -> None:
        """Add a warning with its data to those of the job, once."""
        self.warning = add_warning(self.warning, code, **data)

    def _explain_result(self) -> None:
        if self.is_step or (self.pages > 1 and self.kind != "crawl"):
            return
        found = explain_result(
            self._connection,
            self.job_id,
            self.pages,
            self.failed,
            limit=self.limit,
            page_counts=self.page_counts,
        )
        for code, data in found:
            if code is JobWarning.NO_PAGE:  # it has the reasons
                self.warning = remove_warnings(self.warning, JobWarning.ROBOTS)
            self.warn(code, **data)

    def let_in(self) -> int:
        """Make held URLs pending, the oldest first, as far as the limit allows.

        Return their number.
        """
        free = self.free
        if not self.held or not free:
            return 0
        oldest = select(frontier.c.id).where(*rows_in(self.job_id, RowState.HELD))
        let_in = self._move(oldest.order_by(*IN_ORDER), free, RowState.PENDING)
        self.held -= let_in
        self.open += let_in
        return let_in

    def hold_surplus(self) -> None:
        """Hold back pending URLs above the limit, the newest first. Leased URLs are left."""
        surplus = 0 if self.limit is None else self.open + self.pages - self.limit
        if surplus <= 0:
            return
        state, row_id = IN_ORDER
        newest = select(frontier.c.id).where(
            *rows_in(self.job_id, RowState.PENDING), frontier.c.kind == UrlKind.PAGE
        )
        newest = newest.order_by(state.desc(), row_id.desc())
        held = self._move(newest, surplus, RowState.HELD)
        self.open -= held
        self.held += held

    def _move(self, rows: Select[tuple[int]], most: int, state: RowState) -> int:
        """Give the first URLs of ``rows`` another state. Return their number."""
        chosen = rows.limit(inline(most)).scalar_subquery()
        change = update(frontier).where(frontier.c.id.in_(chosen)).values(state=state)
        return self._connection.execute(change).rowcount

    def change_limit(self, limit: int) -> OutOfCredits | None:
        """Change the page limit, and hold back pending URLs above it.

        Returns :exc:`OutOfCredits`, and changes nothing, if the team cannot pay for a
        higher limit. The caller has locked the team, and admits held URLs.
        """
        before = self._wanted
        self.limit, old = limit, self.limit
        missing = (self._wanted - before) * (self.page_price or 0)
        if missing > 0:
            left = take(self._connection, self.team_id, missing)
            if left is not None:
                self.limit = old
                return OutOfCredits(missing, left)
            self.reserved += missing
        self.hold_surplus()
        spare = (before - self._wanted) * (self.page_price or 0)
        if spare > 0:
            spare = min(spare, self.reserved)
            give_back(self._connection, self.team_id, spare)
            self.reserved -= spare
        return None

    @property
    def _wanted(self) -> int:
        """The number of pages that the job may still deliver."""
        return max(self.open, (self.limit or 0) - self.pages)

    def write(self, state: JobState) -> JobState:
        """Write the counts, and the state of the job, which is returned.

        If no URL is open, the job completes, unless it is paused, or rows of a source job
        are missing.
        """
        rests = self.paused_at is not None or self.is_copying
        ended = not self.open and not self.sitemaps and not rests
        if ended:
            state = JobState.COMPLETED
            self._explain_result()
            self.note("completed")
            job_secrets.forget(self._connection, self.job_id)
            give_back(self._connection, self.team_id, self.reserved)
            self.reserved = 0
        if self.started_at is None and state is not JobState.QUEUED:
            self.started_at = self.at
        counts = {
            **{name: getattr(self, name) for name in _COUNTED},
            "job_id": self.job_id,
            "state": state,
            "page_limit": self.limit,
            "completed_at": self.at if ended else None,
            "expires_at": self._expires_at(ended=ended),
            "more_bytes": self.more_bytes,
        }
        disk_use.add(self._connection, self.team_id, self.more_bytes)
        self.more_bytes = 0
        _WRITE_JOB.run(self._connection, counts)
        add_refused(self._connection, self.job_id, self.refused)
        return state

    def _expires_at(self, *, ended: bool) -> float:
        """Return when the job expires.

        It is indexed, and an index that changes with each commit makes the row expensive. So
        it moves once a minute while the job runs, and is exact at its end.
        """
        expires_at = self.at + self.retention_s
        known: float = self._row.expires_at
        is_near = 0 <= expires_at - known < EXPIRY_EVERY_S
        return known if is_near and not ended else expires_at
