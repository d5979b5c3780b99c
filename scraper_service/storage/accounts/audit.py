"""The audit log: who changed keys, teams and jobs, and what the operator did.

An entry is written in the transaction of its act, so it is there if and only if the act
has happened. It has names and ids, never a secret, an option's value or a page.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import select, tuple_

from scraper_service.options.limits import DAY_S
from scraper_service.storage.schema import audit
from scraper_service.storage.transactions import (
    Insertion,
    ListPosition,
    delete_some,
    now_of,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

COMMAND_LINE = "command line"
SETTINGS = "settings"
SERVICE = "service"
DONE = "done"

_ADD = Insertion(
    audit,
    *("id", "at", "team_id", "key_id", "key_name", "peer"),
    *("action", "target", "detail", "result"),
)


@frozen
class Actor:
    """Who does something that the audit log keeps."""

    #: The IP address of the caller, or :data:`COMMAND_LINE`, :data:`SETTINGS` or
    #: :data:`SERVICE`.
    peer: str
    team_id: str | None = None
    key_id: str | None = None
    key_name: str | None = None


@frozen
class AuditEntry:
    """An entry of the audit log."""

    id: str
    #: Seconds since 1970.
    at: float
    #: The team that acted or was changed, None for acts on the whole service.
    team_id: str | None
    key_id: str | None
    key_name: str | None
    peer: str
    #: What was done, such as ``key.created``.
    action: str
    #: The id or name of what it was done to.
    target: str | None
    detail: Mapping[str, Any]
    #: :data:`DONE`, or why it failed.
    result: str


def record(
    connection: Connection,
    actor: Actor | None,
    action: str,
    target: str | None = None,
    *,
    team_id: str | None = None,
    result: str = DONE,
    **detail: Any,
) -> None:
    """Write an entry. None for ``actor`` writes nothing: the log is off.

    ``team_id`` is the changed team, by default that of the actor. Values of ``detail``
    that are None are left out.
    """
    if actor is None:
        return
    facts = {name: value for name, value in detail.items() if value is not None}
    row = {
        "id": str(uuid.uuid4()),
        "at": now_of(connection),
        "team_id": team_id or actor.team_id,
        "key_id": actor.key_id,
        "key_name": actor.key_name,
        "peer": actor.peer,
        "action": action,
        "target": target,
        "detail": json.dumps(facts),
        "result": result,
    }
    _ADD.run(connection, row)


def read_latest(
    connection: Connection, team_id: str, after: ListPosition | None, limit: int
) -> list[AuditEntry]:
    """Return entries of a team, the latest first.

    One more than ``limit`` if there are more.
    """
    columns = audit.c
    query = select(audit).where(columns.team_id == team_id)
    if after is not None:
        query = query.where(tuple_(columns.at, columns.id) < tuple_(*after))
    query = query.order_by(columns.at.desc(), columns.id.desc()).limit(limit + 1)
    return [_entry(row) for row in connection.execute(query)]


def read_oldest(
    connection: Connection, team_id: str | None, after: ListPosition, limit: int
) -> list[AuditEntry]:
    """Return up to ``limit`` entries after a position, the oldest first.

    ``team_id`` None returns those of all teams and of the whole service.
    """
    columns = audit.c
    query = select(audit).where(tuple_(columns.at, columns.id) > tuple_(*after))
    if team_id is not None:
        query = query.where(columns.team_id == team_id)
    query = query.order_by(columns.at, columns.id).limit(limit)
    return [_entry(row) for row in connection.execute(query)]


def expire(connection: Connection, days: int) -> int:
    """Delete a slice of the entries that are older than ``days``. Return their number."""
    is_old = audit.c.at <= now_of(connection) - days * DAY_S
    return delete_some(connection, audit, is_old)


def _entry(row: Any) -> AuditEntry:
    values = dict(row._mapping)
    return AuditEntry(**{**values, "detail": json.loads(values["detail"])})
