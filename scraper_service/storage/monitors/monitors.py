"""Monitors: create, read, change, delete. Functions run inside a transaction.

A monitor is locked after its team and after a check of its own, never before them. So a
deletion ends the check only when the row of the monitor is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, field, frozen
from sqlalchemy import delete, func, insert, select, update

from scraper_service.errors import (
    JobNotFound,
    MonitorLimit,
    SecretsUnreadable,
    ServiceError,
)
from scraper_service.options.jobs import Webhook, structure, unstructure
from scraper_service.options.monitors import (
    Schedule,
    TargetT,
    target_from_json,
    target_to_json,
)
from scraper_service.storage import job_secrets
from scraper_service.storage.accounts import audit
from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.monitors import snapshots
from scraper_service.storage.schema import monitor, monitor_check
from scraper_service.storage.transactions import now_of, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection, Row, Select

    from scraper_service.storage.accounts.audit import Actor


ACTIVE, PAUSED = "active", "paused"
NOT_FOUND = "Monitor not found"
RUNNING = ("queued", "running")  # states of checks without an end
#: What a monitor raises that this installation cannot read: its secrets, its time zone, or
#: a definition of another version.
UNREADABLE = (SecretsUnreadable, LookupError, TypeError, ValueError)


@frozen(kw_only=True)
class Definition:
    """What a monitor looks at, and whom it tells."""

    targets: tuple[TargetT, ...]
    #: The targets as JSON values for responses.
    shown: tuple[dict[str, Any], ...]
    hook: Webhook | None = None
    #: The webhook as JSON values for responses.
    shown_hook: dict[str, Any] | None = None

    @property
    def has_secrets(self) -> bool:
        """Whether headers or actions are in it, which are stored encrypted."""
        if self.hook is not None and self.hook.headers:
            return True
        return any(
            options.headers or options.actions
            for target in self.targets
            if (options := target.scrape) is not None
        )


@frozen(kw_only=True)
class Monitor:
    """A monitor. Times are seconds since 1970."""

    id: str
    team_id: str
    #: The API key that created it, which its checks are charged to.
    key_id: str | None
    name: str
    #: :data:`ACTIVE` or :data:`PAUSED`.
    state: str
    cron: str
    timezone: str
    goal: str | None
    #: Whether the language model judges changes.
    judge: bool
    definition: Definition
    #: JSON values, None without any.
    notification: dict[str, Any] | None
    retention_days: int
    #: The usual price of a check in credits.
    estimate: int
    #: Credits that a check takes before its start.
    reserve: int
    next_at: float | None = None
    last_at: float | None = None
    #: The latest check that was queued.
    check_id: str | None = None
    #: The pages of the last ended check by state, None before.
    summary: dict[str, int] | None = None
    #: Checks in a row without a good page.
    failures: int = 0
    #: No mail and no messages are sent before; None if they are, infinite without an end.
    muted_until: float | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    #: Whether ``check_id`` is queued or running.
    is_checked: bool = False

    @property
    def wants_mail(self) -> bool:
        """Whether mail is sent after a check with changes."""
        email = (self.notification or {}).get("email") or {}
        return bool(email.get("enabled") and email.get("recipients"))

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that get a message after a check with changes."""
        return tuple((self.notification or {}).get("channels") or ())

    def is_muted(self, at: float) -> bool:
        """Return True if checks that end at ``at`` send no mail and no messages."""
        return self.muted_until is not None and at < self.muted_until

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.cron, self.timezone)


@frozen
class MonitorChange:
    """New values of a monitor by attribute, and of its definition."""

    values: Mapping[str, Any] = field(factory=dict)
    definition: Mapping[str, Any] = field(factory=dict)


def seal_definition(
    connection: Connection, definition: Definition
) -> dict[str, str | bytes | None]:
    """Return the columns of a definition, encrypted if it has secrets."""
    hook = definition.hook
    values = {
        "targets": [target_to_json(each) for each in definition.targets],
        "shown": definition.shown,
        "hook": None if hook is None else unstructure(hook),
        "shown_hook": definition.shown_hook,
    }
    if definition.has_secrets:
        sealed = job_secrets.box_of(connection).seal(values)
        return {"definition": None, "sealed": sealed}
    return {"definition": json.dumps(values), "sealed": None}


def open_definition(connection: Connection, row: Row[Any]) -> Definition:
    """Return the definition in a row. Raises :exc:`SecretsUnreadable`."""
    if row.sealed is not None:
        values = job_secrets.box_of(connection).open(row.sealed)
    else:
        values = json.loads(row.definition)
    return Definition(
        targets=tuple(target_from_json(each) for each in values["targets"]),
        shown=tuple(values["shown"]),
        hook=None if values["hook"] is None else structure(values["hook"], Webhook),
        shown_hook=values["shown_hook"],
    )


def _columns(connection: Connection, found: Monitor) -> dict[str, Any]:
    values = asdict(found, recurse=False)
    del values["is_checked"]
    definition = seal_definition(connection, values.pop("definition"))
    for name in ("notification", "summary"):
        values[name] = None if values[name] is None else json.dumps(values[name])
    return {**values, "judge": int(found.judge), **definition}


def _monitor(connection: Connection, row: Row[Any]) -> Monitor:
    values = {k: v for k, v in row._mapping.items() if k != "sealed"}
    for name in ("notification", "summary"):
        values[name] = None if values[name] is None else json.loads(values[name])
    values["definition"] = open_definition(connection, row)
    status = select(monitor_check.c.status).where(
        monitor_check.c.job_id == row.check_id
    )
    is_checked = row.check_id is not None and connection.scalar(status) in RUNNING
    return Monitor(**{**values, "judge": bool(row.judge), "is_checked": is_checked})


@transaction(first="{wanted.team_id}", apart=True)
def create(
    connection: Connection, wanted: Monitor, most: int
) -> Monitor | ServiceError:
    """Store a monitor. Its ``next_at`` follows from its schedule. Locks the team.

    Returns :exc:`MonitorLimit` if the team has ``most`` monitors already.
    """
    lock_team(connection, wanted.team_id)
    of_team = monitor.c.team_id == wanted.team_id
    if (connection.scalar(select(func.count()).where(of_team)) or 0) >= most:
        return MonitorLimit(most)
    at = now_of(connection)
    found = evolve(
        wanted,
        next_at=wanted.schedule.next_after(at),
        created_at=at,
        updated_at=at,
    )
    connection.execute(insert(monitor).values(**_columns(connection, found)))
    return found


def read_monitor(
    connection: Connection, monitor_id: str, team_id: str | None
) -> Monitor | None:
    """Return a monitor of a team, or of any team for None."""
    row = connection.execute(_of_team(monitor_id, team_id)).one_or_none()
    return None if row is None else _monitor(connection, row)


def _of_team(monitor_id: str, team_id: str | None) -> Select[Any]:
    query = select(monitor).where(monitor.c.id == monitor_id)
    return query if team_id is None else query.where(monitor.c.team_id == team_id)


def is_of_team(connection: Connection, monitor_id: str, team_id: str) -> bool:
    """Return True if a team has a monitor."""
    return connection.scalar(_of_team(monitor_id, team_id)) is not None


def list_monitors(
    connection: Connection, team_id: str, offset: int, limit: int
) -> tuple[list[Monitor], int]:
    """Return monitors of a team, the newest first, and the number of all."""
    of_team = monitor.c.team_id == team_id
    rows = connection.execute(
        select(monitor)
        .where(of_team)
        .order_by(monitor.c.created_at.desc(), monitor.c.id.desc())
        .offset(offset)
        .limit(limit)
    )
    total = connection.scalar(select(func.count()).where(of_team)) or 0
    return [_monitor(connection, row) for row in rows], total


def lock_monitor(
    connection: Connection,
    monitor_id: str,
    team_id: str | None = None,
    *,
    waits: bool = True,
) -> Monitor | None:
    """Lock a monitor of a team, or of any team for None.

    Returns None if it is gone, or locked and this call may not wait.
    """
    query = _of_team(monitor_id, team_id).with_for_update(skip_locked=not waits)
    row = connection.execute(query).one_or_none()
    return None if row is None else _monitor(connection, row)


def set_monitor(connection: Connection, monitor_id: str, **values: Any) -> None:
    """Change columns of a monitor that is locked."""
    connection.execute(
        update(monitor).where(monitor.c.id == monitor_id).values(**values)
    )


@transaction(first="{team_id}", apart=True)
def change(
    connection: Connection, monitor_id: str, team_id: str, wanted: MonitorChange
) -> Monitor | ServiceError:
    """Change a monitor of a team. Its next run time follows from schedule and state.

    Snapshots of targets and URLs that are gone are deleted.
    """
    found = lock_monitor(connection, monitor_id, team_id)
    if found is None:
        return JobNotFound(NOT_FOUND)
    at = now_of(connection)
    changed = evolve(
        found,
        **wanted.values,
        definition=evolve(found.definition, **wanted.definition),
        updated_at=at,
    )
    is_moved = (changed.cron, changed.timezone) != (found.cron, found.timezone)
    if changed.state == PAUSED:
        changed = evolve(changed, next_at=None)
    elif is_moved or changed.next_at is None or "cron" in wanted.values:
        changed = evolve(changed, next_at=changed.schedule.next_after(at), failures=0)
    set_monitor(connection, monitor_id, **_columns(connection, changed))
    if "targets" in wanted.definition:
        former = {each.id: each.type for each in found.definition.targets}
        for target in changed.definition.targets:
            if former.get(target.id, target.type) != target.type:
                snapshots.forget(connection, monitor_id, target.id)
        snapshots.prune(connection, monitor_id, changed.definition.targets)
    return changed


@transaction(first="{team_id}", apart=True)
def remove(
    connection: Connection, monitor_id: str, team_id: str, actor: Actor | None = None
) -> bool:
    """Delete a monitor and its snapshots. Return False if the team has no such monitor.

    Its checks are hidden from then on.
    """
    of_team = (monitor.c.id == monitor_id, monitor.c.team_id == team_id)
    if not connection.execute(delete(monitor).where(*of_team)).rowcount:
        return False
    snapshots.forget(connection, monitor_id)
    audit.record(connection, actor, "monitor.deleted", monitor_id, team_id=team_id)
    return True


@transaction(first="monitors", apart=True)
def set_next_runs(connection: Connection, at: float, ids: Iterable[str]) -> None:
    """Set the next run time of active monitors to that of their schedule after ``at``."""
    for monitor_id in sorted(ids):
        try:
            found = lock_monitor(connection, monitor_id, waits=False)
            if found is None or found.next_at is None:
                continue
            next_at = found.schedule.next_after(at)
        except UNREADABLE:
            continue  # the scheduler puts it off when it is due
        if next_at < found.next_at:
            set_monitor(connection, monitor_id, next_at=next_at)


def waiting_monitors(connection: Connection, after: float) -> list[str]:
    """Return the ids of monitors whose next run time is after ``after``."""
    return list(
        connection.scalars(select(monitor.c.id).where(monitor.c.next_at > after))
    )
