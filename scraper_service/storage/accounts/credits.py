"""What teams may spend and what they have spent.

A team without a balance spends what it likes. From one with a balance, credits are
taken before the work and charged with its end, so that it never falls below zero:
those of a call are held meanwhile, those of a job reserved on its row. What a job
leaves over waits in a hold without owner until the team needs it, since the end of a
job must not wait for the row of a team.

Functions take a connection inside a transaction. Those that lock the row of a team are
for :meth:`Database.write_first`.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import (
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from scraper_service.storage import change_snapshots
from scraper_service.storage.frontier.transactions import RETENTION_S, now_of
from scraper_service.storage.job_records import ACTIVE
from scraper_service.storage.schema import (
    activity,
    hold,
    job,
    ledger,
    scrape,
    team,
    worker,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from scraper_service.items import Snapshot

DAY_S = 86_400
MOST = 2**31  # pages

_ADD_CHARGE, _ADD_ACTIVITY, _ADD_PAGE = insert(ledger), insert(activity), insert(scrape)
_READ_CHARGE = select(ledger.c.page_id).where(ledger.c.page_id == bindparam("call"))
_TAKE = (
    update(team)
    .where(team.c.id == bindparam("team"), team.c.credits >= bindparam("amount"))
    .values(credits=team.c.credits - bindparam("amount"))
)
_GIVE = (
    update(team)
    .where(team.c.id == bindparam("team"))
    .values(credits=team.c.credits + bindparam("amount"))
)
_READ = select(team.c.credits).where(team.c.id == bindparam("team"))
# Weaker than FOR UPDATE, which would wait for everybody who writes into the ledger.
_LOCK = _READ.with_for_update(key_share=True)


@frozen
class Call:
    """A call outside of jobs: what its team's ledger and activity say of it.

    ``target`` is the address it is about, None where nothing may be kept of it; ``at``
    is when it came, in seconds since 1970.
    """

    id: str
    team_id: str
    key_id: str | None
    endpoint: str
    version: int
    target: str | None
    at: float


def balance(connection: Connection, team_id: str) -> int | None:
    """Return what a team may still spend, None for any amount."""
    found = connection.scalar(_READ, {"team": team_id})
    if found is None:
        return None
    idle = select(func.sum(hold.c.credits)).where(
        hold.c.team_id == team_id, _is_free(connection)
    )
    return int(found) + int(connection.scalar(idle) or 0)


def _is_free(connection: Connection) -> ColumnElement[bool]:
    """Return which holds go back: nobody works on the call any more."""
    live = select(worker.c.id).where(worker.c.until >= now_of(connection))
    return or_(hold.c.owner.is_(None), hold.c.owner.not_in(live))


def lock_team(connection: Connection, team_id: str) -> None:
    """Let nobody else take from a team until the end of the transaction."""
    connection.execute(_LOCK, {"team": team_id})


def take(connection: Connection, team_id: str, amount: int) -> int | None:
    """Take credits from a team; return None, or what it has if that is too little."""
    asked = {"team": team_id, "amount": amount}
    if connection.execute(_TAKE, asked).rowcount:
        return None
    connection.execute(_LOCK, {"team": team_id})
    take_back(connection, team_id)
    if connection.execute(_TAKE, asked).rowcount:
        return None
    left: int | None = connection.scalar(_READ, {"team": team_id})
    return left  # None again for a team without a balance


def take_back(connection: Connection, team_id: str) -> None:
    """Put what nobody holds any more back into the balance of a team, locked."""
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
    """Take credits for as many pages as the team can pay, ``most`` at most.

    Returns how many, and what the team has if they are fewer than ``least``: then
    nothing was taken. ``unit`` is the price of a page.
    """
    left = take(connection, team_id, unit * min(most, MOST))
    if left is None:
        return most, 0
    affordable = left // unit if unit else most
    if affordable < least or take(connection, team_id, unit * affordable) is not None:
        return 0, left
    return affordable, left


def give_back(connection: Connection, team_id: str, amount: int) -> None:
    """Let a team have credits again that were taken; locks no team."""
    if amount:
        connection.execute(
            insert(hold).values(
                id=str(uuid.uuid4()), team_id=team_id, credits=amount, owner=None
            )
        )


def open_hold(
    connection: Connection, call: Call, amount: int, owner: str
) -> int | None:
    """Take credits for a call; return None, or what the team has if it is too little."""
    left = take(connection, call.team_id, amount)
    if left is None:
        connection.execute(
            insert(hold).values(
                id=call.id, team_id=call.team_id, credits=amount, owner=owner
            )
        )
    return left


def free_hold(connection: Connection, call_id: str) -> None:
    """Let the credits of a call go back to its team; locks no team."""
    connection.execute(update(hold).where(hold.c.id == call_id).values(owner=None))


def settle(
    connection: Connection, call: Call, price: int, body: bytes | None
) -> int | None:
    """Charge a call that had a hold, and keep its page, None for none.

    Returns None, or what the team has if ``price`` is more: then the call is free, and
    its page is not kept. A second time it changes nothing.
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
    record(connection, call, price, body)
    return left


def settle_tracked(
    connection: Connection,
    call: Call,
    price: int,
    body: bytes | None,
    snapshot: Snapshot,
    is_limited: bool,
) -> tuple[bool, int | None]:
    """Do as :func:`settle` and store a snapshot, if it was compared with the last one.

    Returns whether it was, else nothing is done; and what :func:`settle` returns. A
    second time it changes nothing.
    """
    if is_limited:  # teams are locked before all else
        lock_team(connection, call.team_id)
    if _is_recorded(connection, call):
        return True, None
    if not change_snapshots.is_last(connection, snapshot):
        return False, None
    left = None
    if is_limited:
        left = settle(connection, call, price, body)
    else:
        record(connection, call, price, body)
    if left is None:
        change_snapshots.store(connection, [snapshot])
    return True, left


def record(
    connection: Connection, call: Call, price: int, body: bytes | None = None
) -> None:
    """Write a call into ledger and activity, and keep its page for a day.

    A second time it changes nothing.
    """
    if _is_recorded(connection, call):
        return
    at = now_of(connection)
    connection.execute(
        _ADD_CHARGE,
        charge_row(call.id, call.team_id, None, call.key_id, price, at),
    )
    note_activity(connection, call)
    if body is not None:
        page = {
            "id": call.id,
            "team_id": call.team_id,
            "body": zlib.compress(body, 1),
            "expires_at": at + RETENTION_S,
        }
        connection.execute(_ADD_PAGE, page)


def _is_recorded(connection: Connection, call: Call) -> bool:
    return connection.scalar(_READ_CHARGE, {"call": call.id}) is not None


def charge_job(
    connection: Connection, team_id: str, job_id: str, key_id: str | None, price: int
) -> None:
    """Charge a job as a whole; a second time is an error of the database."""
    at = now_of(connection)
    row = charge_row(job_id, team_id, job_id, key_id, price, at)
    connection.execute(_ADD_CHARGE, row)


def note_activity(connection: Connection, call: Call) -> None:
    """List a call among those of its team."""
    row = {
        "id": call.id,
        "team_id": call.team_id,
        "endpoint": call.endpoint,
        "version": call.version,
        "target": call.target,
        "at": call.at,
    }
    connection.execute(_ADD_ACTIVITY, row)


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


def top_up(connection: Connection, team_id: str, job_id: str, amount: int) -> bool:
    """Reserve more for a job, for a page that is dearer than others; tell if it worked.

    In a transaction of its own (:meth:`Database.write_aside`): it locks the team, then
    the job.
    """
    if take(connection, team_id, amount) is not None:
        return False
    reserved = connection.execute(
        update(job)
        .where(job.c.id == job_id, job.c.state.in_(ACTIVE))
        .values(reserved=job.c.reserved + amount)
    )
    if not reserved.rowcount:
        give_back(connection, team_id, amount)
    return True
