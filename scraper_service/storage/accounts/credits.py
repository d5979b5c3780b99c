"""Credits of teams: prices, balances, holds, charges and the ledger.

A team without a balance is unlimited. For other teams, credits are taken before the
work and charged at its end. Only a check of a monitor may cost more than was taken: its
team has a debt then, a hold below zero, and gets no credits for new work. A call reserves its
credits as a hold, a job on its row. The unused credits of a job become a hold
without an owner, which return to the balance when the team needs it: the end of a job
must not wait for the row of the team.

Functions run inside a transaction. Callers use :class:`Credits`, and :class:`Prices` before.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from sqlalchemy import (
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from scraper_service.content.stored_pages import compress
from scraper_service.options.limits import DAY_S
from scraper_service.storage import page_cache
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.database import reading, writing
from scraper_service.storage.job_records import ACTIVE
from scraper_service.storage.job_secrets import pack_replay
from scraper_service.storage.schema import (
    activity,
    artefact,
    frontier,
    hold,
    job,
    ledger,
    scrape,
    team,
)
from scraper_service.storage.transactions import (
    RETENTION_S,
    Insertion,
    Statement,
    constant,
    delete_some,
    live_workers,
    lock_job,
    now_of,
    transaction,
)

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings
    from sqlalchemy import ColumnElement, Connection

    from scraper_service.items import PageContent, Snapshot
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.storage.database import Database

MOST = 2**31  # pages
UNPAID = "The credits of the team did not suffice."

#: Inserts rows of :func:`charge_row`.
ADD_CHARGE = Insertion(
    ledger, "page_id", "team_id", "job_id", "key_id", "credits", "day", "at"
)
_ADD_ACTIVITY = Insertion(
    activity,
    *("id", "team_id", "endpoint", "version", "target", "error", "origin"),
    *("at", "expires_at"),
)
_PAGE = ("id", "team_id", "body", "expires_at", "replay")
_ADD_PAGE = Insertion(scrape, *_PAGE)
_KEEP_FILES = (
    update(artefact)
    .where(artefact.c.holder == bindparam("call"), artefact.c.job_id.is_(None))
    .values(expires_at=bindparam("until"))
)
_READ_CHARGE = Statement(
    select(ledger.c.page_id).where(ledger.c.page_id == bindparam("call"))
)
#: Debts of a team as a number below zero. A check that costs more than its reserve leaves one.
_DEBT = (
    select(func.coalesce(func.sum(hold.c.credits), 0))
    .where(hold.c.team_id == bindparam("team"), hold.c.credits < constant(0))
    .scalar_subquery()
)
_TAKE = (
    update(team)
    .where(
        team.c.id == bindparam("team"), team.c.credits + _DEBT >= bindparam("amount")
    )
    .values(credits=team.c.credits - bindparam("amount"))
)
_GIVE = (
    update(team)
    .where(team.c.id == bindparam("team"))
    .values(credits=team.c.credits + bindparam("amount"))
)
_READ = select(team.c.credits).where(team.c.id == bindparam("team"))
# Weaker than FOR UPDATE, which would wait for each transaction that writes the ledger.
_LOCK = _READ.with_for_update(key_share=True)


@frozen
class Call:
    """A call outside of jobs, for the ledger and the activity of its team.

    ``target`` is the URL of the call, None with zero data retention. ``at`` is the time of
    the call in seconds since 1970. ``error`` is the reason of a failed call, ``origin`` the
    name of the client.
    """

    id: str
    team_id: str
    key_id: str | None
    endpoint: str
    version: int
    target: str | None
    at: float
    origin: str | None = None
    error: str | None = None
    #: Seconds that the call and its page are stored.
    retention_s: float = RETENTION_S
    #: What opens the page again, see :mod:`scraper_service.storage.job_secrets`.
    replay: dict[str, Any] | None = None


def balance(connection: Connection, team_id: str) -> int | None:
    """Return the credits that a team may spend, None if it is unlimited."""
    found = connection.scalar(_READ, {"team": team_id})
    if found is None:
        return None
    idle = select(func.sum(hold.c.credits)).where(
        hold.c.team_id == team_id, _is_free(connection)
    )
    return int(found) + int(connection.scalar(idle) or 0)


def _is_free(connection: Connection) -> ColumnElement[bool]:
    """Return the condition for holds whose process is dead or which have no owner."""
    live = live_workers(now_of(connection))
    return or_(hold.c.owner.is_(None), hold.c.owner.not_in(live))


def lock_team(connection: Connection, team_id: str) -> None:
    """Lock the balance of a team until the end of the transaction."""
    connection.execute(_LOCK, {"team": team_id})


def take(connection: Connection, team_id: str, amount: int) -> int | None:
    """Take credits from a team. Return None, or the balance if it is too low.

    The balance counts debts, and may be below zero.
    """
    if not amount:
        return None  # a debt does not stop free calls
    values = {"team": team_id, "amount": amount}
    if connection.execute(_TAKE, values).rowcount:
        return None
    connection.execute(_LOCK, {"team": team_id})
    take_back(connection, team_id)
    if connection.execute(_TAKE, values).rowcount:
        return None
    left: int | None = connection.scalar(_READ, {"team": team_id})
    return left  # None for a team without a balance, too


def take_back(connection: Connection, team_id: str) -> None:
    """Return free holds to the balance of a team, which is locked."""
    freed = connection.scalars(
        delete(hold)
        .where(hold.c.team_id == team_id, _is_free(connection))
        .returning(hold.c.credits)
    ).all()
    if freed:
        connection.execute(_GIVE, {"team": team_id, "amount": sum(freed)})


def take_up_to(
    connection: Connection, team_id: str, unit: int, most: int, least: int
) -> tuple[int, int]:
    """Take credits for as many pages as the team can pay, up to ``most``.

    Returns the number of pages and the balance. If the team can pay fewer than ``least``
    pages, nothing is taken. ``unit`` is the price of a page.
    """
    left = take(connection, team_id, unit * min(most, MOST))
    if left is None:
        return most, 0
    affordable = left // unit if unit else most
    if affordable < least or take(connection, team_id, unit * affordable) is not None:
        return 0, left
    return affordable, left


def give_back(connection: Connection, team_id: str, amount: int) -> None:
    """Return credits to a team as a hold without an owner. Locks no team."""
    if amount:
        connection.execute(
            insert(hold).values(
                id=str(uuid.uuid4()), team_id=team_id, credits=amount, owner=None
            )
        )


@transaction(first="{call.team_id}")
def open_hold(
    connection: Connection, call: Call, amount: int, owner: str
) -> int | None:
    """Reserve credits for a call. Return None, or the balance if it is too low."""
    left = take(connection, call.team_id, amount)
    if left is None:
        connection.execute(
            insert(hold).values(
                id=call.id, team_id=call.team_id, credits=amount, owner=owner
            )
        )
    return left


@transaction(first="{call.team_id}")
def free_hold(connection: Connection, call: Call) -> None:
    """Return the hold of a call to its team. Runs after :func:`open_hold`."""
    connection.execute(update(hold).where(hold.c.id == call.id).values(owner=None))


@transaction(first="{call.team_id}")
def settle(
    connection: Connection, call: Call, price: int, body: bytes | None
) -> int | None:
    """Charge a call with a hold, and keep its page if there is a ``body``.

    Returns None, or the balance if it is below ``price``: the call is then free, and its
    page is not kept. A second call changes nothing.
    """
    connection.execute(_LOCK, {"team": call.team_id})
    if _is_recorded(connection, call):
        return None
    held = connection.scalar(
        delete(hold).where(hold.c.id == call.id).returning(hold.c.credits)
    )
    left = None
    if (missing := price - (held or 0)) > 0:
        left = take(connection, call.team_id, missing)
    elif missing:
        connection.execute(_GIVE, {"team": call.team_id, "amount": -missing})
    if left is not None:
        give_back(connection, call.team_id, held or 0)
        price, body, left = 0, None, left + (held or 0)
        call = evolve(call, error=call.error or UNPAID)
    record(connection, call, price, body)
    return left


@transaction(first="{call.team_id}")
def settle_tracked(
    connection: Connection,
    call: Call,
    price: int,
    body: bytes | None,
    snapshot: Snapshot,
    is_limited: bool,
) -> tuple[bool, int | None]:
    """Do as :func:`settle`, and store a snapshot if it was compared with the last one.

    Returns False if it was not, without a change, and the result of :func:`settle`. A second
    call changes nothing.
    """
    if is_limited:  # teams are locked before other rows
        lock_team(connection, call.team_id)
    if _is_recorded(connection, call):
        return True, None
    if not page_cache.is_last_snapshot(connection, snapshot):
        return False, None
    left = None
    if is_limited:
        left = settle(connection, call, price, body)
    else:
        record(connection, call, price, body)
    if left is None:
        page_cache.store_snapshots(connection, [snapshot])
    return True, left


@transaction(row="{call.id}")
def record(
    connection: Connection, call: Call, price: int, body: bytes | None = None
) -> None:
    """Write a call into ledger and activity, and keep its page.

    A second call changes nothing.
    """
    if _is_recorded(connection, call):
        return
    at = now_of(connection)
    row = charge_row(call.id, call.team_id, None, call.key_id, price, at)
    ADD_CHARGE.run(connection, row)
    note_activity(connection, call, at)
    if body is not None:
        replay = pack_replay(connection, call.replay) if call.replay else None
        until = at + call.retention_s
        _store_page(connection, call.id, call.team_id, body, until, replay)
        if call.retention_s != RETENTION_S:
            connection.execute(_KEEP_FILES, {"call": call.id, "until": until})


def store_answer(
    connection: Connection, answer_id: str, team_id: str, body: bytes, keep_s: float
) -> None:
    """Store an answer of a tool along with the pages of scrapes, for ``keep_s`` seconds."""
    _store_page(connection, answer_id, team_id, body, now_of(connection) + keep_s)


def _store_page(
    connection: Connection,
    page_id: str,
    team_id: str,
    body: bytes,
    expires_at: float,
    replay: bytes | None = None,
) -> None:
    packed = compress(body)
    values = (page_id, team_id, packed, expires_at, replay)
    _ADD_PAGE.run(connection, dict(zip(_PAGE, values, strict=True)))
    disk_use.add(connection, team_id, len(packed))


def _is_recorded(connection: Connection, call: Call) -> bool:
    return _READ_CHARGE.one(connection, {"call": call.id}) is not None


def charge_job(
    connection: Connection, team_id: str, job_id: str, key_id: str | None, price: int
) -> None:
    """Charge a job as a whole. A second call raises an error of the database."""
    at = now_of(connection)
    row = charge_row(job_id, team_id, job_id, key_id, price, at)
    ADD_CHARGE.run(connection, row)


def note_activity(connection: Connection, call: Call, at: float) -> None:
    """Write a call that ended or started a job at ``at`` into its team's activity."""
    row = {
        "id": call.id,
        "team_id": call.team_id,
        "endpoint": call.endpoint,
        "version": call.version,
        "target": call.target,
        "error": call.error,
        "origin": call.origin,
        "at": call.at,
        "expires_at": at + call.retention_s,
    }
    _ADD_ACTIVITY.run(connection, row)


def charge_row(
    page_id: str,
    team_id: str,
    job_id: str | None,
    key_id: str | None,
    price: int,
    at: float,
) -> dict[str, Any]:
    """Return a row of the ledger."""
    return {
        "page_id": page_id,
        "team_id": team_id,
        "job_id": job_id,
        "key_id": key_id,
        "credits": price,
        "day": int(at // DAY_S),
        "at": at,
    }


@transaction(first="{team_id}", apart=True)
def top_up(
    connection: Connection,
    team_id: str,
    job_id: str,
    row_id: int,
    page_id: str,
    amount: int,
) -> bool:
    """Reserve more credits of a job for an expensive page. Return False if too few.

    ``row_id`` is the leased URL, which notes the page: a call whose response was lost may be
    repeated, and changes nothing then.
    """
    lock_team(connection, team_id)
    lock_job(connection, job_id)
    row = frontier.c.id == row_id
    if connection.scalar(select(frontier.c.page_id).where(row)) == page_id:
        return True
    if take(connection, team_id, amount) is not None:
        return False
    connection.execute(update(frontier).where(row).values(page_id=page_id))
    reserved = connection.execute(
        update(job)
        .where(job.c.id == job_id, job.c.state.in_(ACTIVE))
        .values(reserved=job.c.reserved + amount)
    )
    if not reserved.rowcount:
        give_back(connection, team_id, amount)
    return True


class Credits:
    """The credits of teams in a database, for calls of one process.

    A call outside of jobs uses these methods in order:

    1. :meth:`hold` takes the highest price before the work. A team without a balance
       is unlimited, and needs no hold.
    2. :meth:`settle` charges the price and returns the other credits, or :meth:`settle_tracked`
       for a page that is compared with its last snapshot. :meth:`record` is for
       unlimited teams.
    3. :meth:`free` returns the whole hold if the work failed.

    Jobs reserve credits when :meth:`Jobs.create` stores them, and pay with each page in
    :meth:`Frontier.store`. :meth:`top_up` reserves more for a page above the usual
    price. It and steps 2 and 3 may be repeated: the second time changes nothing.

    ``owner`` is the id of this process in the table of workers. Holds of a dead process
    return to their teams. All methods raise :exc:`ServiceUnavailable` if the database
    does not respond.
    """

    def __init__(self, database: Database, owner: str):
        self._database = database
        self._owner = owner

    balance = reading(balance)

    async def hold(self, call: Call, amount: int) -> int | None:
        """Take credits for a call. Return None, or the balance if it is too low."""
        return await self._database.write(open_hold, call, amount, self._owner)

    settle = writing(settle)
    settle_tracked = writing(settle_tracked)

    async def record(self, call: Call, price: int, body: bytes | None) -> None:
        """Charge a call of an unlimited team, a moment later."""
        await self._database.write_later(record, call, price, body)

    free = writing(free_hold)
    top_up = writing(top_up)


def expire(connection: Connection, team_id: str, days: int) -> int:
    """Delete a slice of a team's charges that are older than ``days``. Return their number.

    Balances stay: they are numbers of their own.
    """
    return delete_some(
        connection,
        ledger,
        ledger.c.team_id == team_id,
        ledger.c.at < now_of(connection) - days * DAY_S,
    )


def teams_with_charges(connection: Connection, days: int) -> list[str]:
    """Return the teams that have charges older than ``days``."""
    oldest = (
        select(ledger.c.page_id)
        .where(
            ledger.c.team_id == team.c.id,
            ledger.c.at < now_of(connection) - days * DAY_S,
        )
        .exists()
    )
    return list(connection.scalars(select(team.c.id).where(oldest)))


RESULTS_A_BLOCK = 10  # search results per price


class Prices:
    """The prices of the settings ``CREDITS_...``."""

    def __init__(self, settings: BaseSettings):
        self.map = settings.getint("CREDITS_PER_MAP")
        self.extract_page = settings.getint("CREDITS_PER_EXTRACT_PAGE")
        self._search = settings.getint("CREDITS_PER_SEARCH")
        #: The price of a page without surcharges.
        self.page = settings.getint("CREDITS_PER_PAGE")
        #: The price of a page that has not changed since an earlier job.
        self.unchanged = settings.getint("CREDITS_UNCHANGED")
        self._pdf_page = settings.getint("CREDITS_PER_PDF_PAGE")
        self._stealth = settings.getint("CREDITS_STEALTH")
        #: The surcharge of a page that a language model reads.
        self.reading = settings.getint("CREDITS_JSON")
        self._zero_retention = settings.getint("CREDITS_ZERO_RETENTION")

    def search(self, results: int) -> int:
        """Return the price of a list of search results without their pages."""
        return self._search * -(-results // RESULTS_A_BLOCK)

    def of(
        self, content: PageContent, options: ScrapeOptions, proxy: str = "basic"
    ) -> int:
        """Return the price of a delivered page. Failed pages are free.

        ``proxy`` is the kind of the proxy.
        """
        count = content.num_pages
        price = self.page if count is None else self._pdf_page * count
        stealth = self._stealth if proxy == "stealth" else 0
        return price + stealth + self._extra(options)

    def usual(self, options: ScrapeOptions) -> int:
        """Return the usual price of a page with ``options``. PDF files may cost more.

        This price is reserved before the fetch.
        """
        return self.page + self._extra(options)

    def most(self, options: ScrapeOptions, pdf_pages: int) -> int:
        """Return the highest price of a page, of whose PDF files ``pdf_pages`` are read."""
        page = max(self.page, self._pdf_page * pdf_pages)
        stealth = 0 if options.proxy == "basic" else self._stealth
        return page + stealth + self._extra(options)

    def without_fetch(self, price: int) -> int:
        """Return the remaining price of a page that is not fetched: its surcharges."""
        return max(0, price - self.page)

    def _extra(self, options: ScrapeOptions) -> int:
        retention = self._zero_retention if options.zero_data_retention else 0
        return retention + (self.reading if options.extracts else 0)
