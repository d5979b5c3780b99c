"""Sessions of teams: named ones, which are stored, and those of the browser, which run.

A named session has cookies and local storage, encrypted. Its state is Playwright's storage
state with ``cookies`` and ``origins``. A browser session may write one at its end. It is active
until its row has an end, and as long as the process lives that has its browser. Functions run
inside a transaction. Callers of browser sessions use :class:`SessionStore`.
"""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import asdict, evolve, fields, frozen
from sqlalchemy import and_, delete, func, insert, or_, select, update

from scraper_service.errors import SecretsUnreadable
from scraper_service.options.limits import DAY_S
from scraper_service.storage.accounts import audit
from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.database import reading, writing
from scraper_service.storage.schema import browser_session, ledger, session
from scraper_service.storage.secrets import Box
from scraper_service.storage.transactions import (
    delete_some,
    dialect_insert,
    live_workers,
    now_of,
    transaction,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.database import Database


StateT: TypeAlias = dict[str, Any]

MAX_STATE_BYTES = 2**20  # of one session, before it is encrypted
MAX_SESSIONS = 1000  # of one team


class TooManySessions(ValueError):
    """Raised when a team has :data:`MAX_SESSIONS` sessions."""


@frozen
class SessionRow:
    """A session as its team sees it. Times are seconds since 1970."""

    name: str
    created_at: float
    updated_at: float
    cookies: int


class SessionBox:
    """Encrypts states with the ``secret`` of the service."""

    def __init__(self, secret: bytes):
        self._box = Box(lambda: secret, "sessions")

    def seal(self, state: StateT) -> bytes:
        """Return a state encrypted. Raise :exc:`ValueError` if it is too large."""
        if len(json.dumps(state)) > MAX_STATE_BYTES:
            raise ValueError(f"a session has at most {MAX_STATE_BYTES} bytes")
        return self._box.seal(state)

    def open(self, sealed: bytes) -> StateT:
        """Return a decrypted state, an empty state if the secret has changed."""
        try:
            state: StateT = self._box.open(sealed)
        except SecretsUnreadable:
            return {"cookies": [], "origins": []}
        return state


def read_session(
    connection: Connection, team_id: str, name: str, box: SessionBox
) -> StateT | None:
    """Return the state of a session, None if the team has no such session."""
    sealed = connection.scalar(
        select(session.c.body).where(
            session.c.team_id == team_id, session.c.name == name
        )
    )
    return None if sealed is None else box.open(sealed)


@transaction(row="{name}")
def save_session(
    connection: Connection,
    team_id: str,
    name: str,
    box: SessionBox,
    before: StateT,
    after: StateT,
) -> None:
    """Store the changes of a page to a session, merged with concurrent changes.

    Raises :exc:`TooManySessions` and :exc:`ValueError`.
    """
    now = now_of(connection)
    row = connection.execute(
        select(session.c.body)
        .where(session.c.team_id == team_id, session.c.name == name)
        .with_for_update()
    ).one_or_none()
    if row is None:
        known = select(session.c.name).where(session.c.team_id == team_id)
        if len(connection.execute(known).all()) >= MAX_SESSIONS:
            raise TooManySessions(f"a team has at most {MAX_SESSIONS} sessions")
    current = {"cookies": [], "origins": []} if row is None else box.open(row.body)
    state = merge_changes(current, before, after)
    values = {
        "body": box.seal(state),
        "cookies": len(state["cookies"]),
        "updated_at": now,
    }
    connection.execute(
        dialect_insert(connection, session)
        .values(team_id=team_id, name=name, created_at=now, **values)
        .on_conflict_do_update(index_elements=("team_id", "name"), set_=values)
    )


def list_sessions(connection: Connection, team_id: str) -> list[SessionRow]:
    """Return the sessions of a team, by name."""
    columns = [session.c[fact] for fact in SessionRow.__match_args__]
    rows = connection.execute(
        select(*columns).where(session.c.team_id == team_id).order_by(session.c.name)
    )
    return [SessionRow(*row) for row in rows]


def delete_session(
    connection: Connection, team_id: str, name: str, actor: Actor | None = None
) -> bool:
    """Delete a session. Return True if it existed."""
    gone = connection.execute(
        delete(session).where(session.c.team_id == team_id, session.c.name == name)
    )
    if gone.rowcount:
        audit.record(connection, actor, "session.deleted", name)
    return gone.rowcount == 1


def merge_changes(current: StateT, before: StateT, after: StateT) -> StateT:
    """Return ``current`` with the changes from ``before`` to ``after``."""
    cookies = _merge_values(*(_cookies(state) for state in (current, before, after)))
    items = _merge_values(*(_items(state) for state in (current, before, after)))
    origins: dict[str, list[dict[str, str]]] = {}
    for (origin, name), value in items.items():
        origins.setdefault(origin, []).append({"name": name, "value": value})
    return {
        "cookies": list(cookies.values()),
        "origins": [{"origin": o, "localStorage": v} for o, v in origins.items()],
    }


def _merge_values(current: Any, before: Any, after: Any) -> Any:
    result = {key: v for key, v in current.items() if key in after or key not in before}
    result |= {key: v for key, v in after.items() if before.get(key) != v}
    return result


def _cookies(state: StateT) -> dict[tuple[str, ...], Any]:
    return {(c["domain"], c["path"], c["name"]): c for c in state["cookies"]}


def _items(state: StateT) -> dict[tuple[str, str], str]:
    return {
        (origin["origin"], item["name"]): item["value"]
        for origin in state["origins"]
        for item in origin["localStorage"]
    }


# -- sessions of the browser ---------------------------------------------------------

MOST_LISTED = 100  # sessions in a list
# After its time to live, until a session is ended whose process lives. A browser that
# starts slowly makes its time begin a minute late, and its end may take another half.
OVER_S = 180


class SessionRefusal(enum.Enum):
    """Why a session cannot be opened."""

    TOO_MANY = "too many"
    PROFILE_IN_USE = "profile in use"


@frozen(kw_only=True)
class SessionRecord:
    """A stored session. Times are seconds since 1970."""

    id: str
    team_id: str
    #: The process that has its browser.
    owner: str
    #: The scrape whose page it continues.
    scrape_id: str | None
    #: The profile that it writes at its end.
    profile: str | None
    #: True unless its caller wants no pictures of the page.
    has_view: bool
    created_at: float
    #: The end of the last call.
    last_at: float
    #: The end of its time to live.
    expires_at: float
    #: None for an active session.
    ended_at: float | None = None
    #: What it has cost; None for an active session.
    credits: int | None = None

    @property
    def is_active(self) -> bool:
        return self.ended_at is None

    @property
    def duration_ms(self) -> int:
        """The time from its start to its end, or to its last call."""
        end = self.last_at if self.ended_at is None else self.ended_at
        return round(max(0.0, end - self.created_at) * 1000)


# A process may die when it has charged a session and not yet stored its end.
_CHARGED = func.coalesce(
    select(ledger.c.credits)
    .where(ledger.c.page_id == browser_session.c.id)
    .scalar_subquery(),
    0,
)
_COLUMNS = [
    *(browser_session.c[each.name] for each in fields(SessionRecord)),
    _CHARGED.label("charged"),
]


@transaction(first="{wanted.team_id}")
def open_session(
    connection: Connection, wanted: SessionRecord, ttl_s: float, most: int
) -> SessionRecord | SessionRefusal:
    """Store a new session of ``ttl_s`` seconds, unless the team has ``most`` active ones.

    Returns the session of its scrape if there is one, active or ended. Locks the row of the
    team.
    """
    lock_team(connection, wanted.team_id)
    if wanted.scrape_id is not None:
        known = find_session(connection, wanted.team_id, scrape_id=wanted.scrape_id)
        if known is not None:
            return known
    of_team = and_(browser_session.c.team_id == wanted.team_id, _is_active(connection))
    active = select(func.count()).select_from(browser_session).where(of_team)
    if (connection.scalar(active) or 0) >= most:
        return SessionRefusal.TOO_MANY
    if wanted.profile is not None:
        same = active.where(browser_session.c.profile == wanted.profile)
        if connection.scalar(same):
            return SessionRefusal.PROFILE_IN_USE
    now = now_of(connection)
    opened = evolve(wanted, created_at=now, last_at=now, expires_at=now + ttl_s)
    row = {**asdict(opened), "has_view": int(opened.has_view)}
    connection.execute(insert(browser_session).values(row))
    return opened


def find_session(
    connection: Connection,
    team_id: str,
    *,
    session_id: str | None = None,
    scrape_id: str | None = None,
) -> SessionRecord | None:
    """Return a session of a team by its id or its scrape, None if it has none."""
    columns = browser_session.c
    is_it = (
        columns.id == session_id
        if session_id is not None
        else columns.scrape_id == scrape_id
    )
    row = connection.execute(
        select(*_COLUMNS, _is_active(connection).label("is_active"))
        .where(is_it, columns.team_id == team_id)
        .order_by(columns.created_at.desc())
        .limit(1)
    ).first()
    return None if row is None else _record(row)


def list_browser_sessions(
    connection: Connection, team_id: str, *, is_active: bool | None
) -> list[SessionRecord]:
    """Return the sessions of a team, the newest first; at most :data:`MOST_LISTED`.

    ``is_active`` chooses active or ended ones; None is both.
    """
    condition = _is_active(connection)
    query = (
        select(*_COLUMNS, condition.label("is_active"))
        .where(browser_session.c.team_id == team_id)
        .order_by(browser_session.c.created_at.desc(), browser_session.c.id)
        .limit(MOST_LISTED)
    )
    if is_active is not None:
        query = query.where(condition if is_active else ~condition)
    return [_record(row) for row in connection.execute(query)]


def _record(row: object) -> SessionRecord:
    values = {each.name: getattr(row, each.name) for each in fields(SessionRecord)}
    values["has_view"] = bool(values["has_view"])
    if values["ended_at"] is None and not row.is_active:  # type: ignore[attr-defined]
        # Its process has died; the row gets its end later.
        charged = row.charged  # type: ignore[attr-defined]
        values |= {"ended_at": values["last_at"], "credits": charged}
    return SessionRecord(**values)


def _is_active(connection: Connection) -> ColumnElement[bool]:
    columns = browser_session.c
    live = live_workers(now_of(connection))
    return and_(columns.ended_at.is_(None), columns.owner.in_(live))


def note_call(connection: Connection, session_id: str) -> None:
    """Note the end of a call of an active session."""
    connection.execute(
        update(browser_session)
        .where(browser_session.c.id == session_id)
        .values(last_at=now_of(connection))
    )


def end_session(
    connection: Connection, session_id: str, credits_billed: int
) -> SessionRecord | None:
    """Store the end of a session. A second call changes nothing."""
    columns = browser_session.c
    connection.execute(
        update(browser_session)
        .where(columns.id == session_id, columns.ended_at.is_(None))
        .values(ended_at=now_of(connection), credits=credits_billed)
    )
    row = connection.execute(
        select(*_COLUMNS, columns.ended_at.is_(None).label("is_active")).where(
            columns.id == session_id
        )
    ).first()
    return None if row is None else _record(row)


@transaction(first="{team_id}")
def forget_session(connection: Connection, session_id: str, team_id: str) -> None:
    """Delete a session whose browser could not be opened.

    Runs after an :func:`open_session` whose caller has left, which may still be stored.
    """
    row = (browser_session.c.id == session_id, browser_session.c.team_id == team_id)
    connection.execute(browser_session.delete().where(*row))


def ask_end(connection: Connection, session_id: str) -> None:
    """Ask the process of a session to end it."""
    connection.execute(
        update(browser_session)
        .where(browser_session.c.id == session_id)
        .values(is_ending=1)
    )


def requested_ends(connection: Connection, owner: str) -> list[str]:
    """Return the active sessions of a process that other processes have requested to end."""
    columns = browser_session.c
    return list(
        connection.scalars(
            select(columns.id).where(
                columns.owner == owner,
                columns.is_ending == 1,
                columns.ended_at.is_(None),
            )
        )
    )


def end_lost_sessions(connection: Connection) -> int:
    """End the sessions of dead processes, and those that are over. Return their number.

    They are free, unless their process had charged them.
    """
    columns = browser_session.c
    now = now_of(connection)
    live = live_workers(now)
    is_lost = or_(columns.owner.not_in(live), columns.expires_at <= now - OVER_S)
    return connection.execute(
        update(browser_session)
        .where(columns.ended_at.is_(None), is_lost)
        .values(ended_at=columns.last_at, credits=_CHARGED)
    ).rowcount


def expire_sessions(connection: Connection) -> int:
    """Delete a slice of sessions that ended a day ago. Return the number of rows."""
    is_old = browser_session.c.ended_at <= now_of(connection) - DAY_S
    return delete_some(connection, browser_session, is_old)


class SessionStore:
    """The sessions of one process, ``owner``, in the database. The order of calls:

    1. :meth:`open` stores a session before its browser starts. :meth:`forget` takes it
       back if the browser cannot be started.
    2. :meth:`note_call` moves the time of its last call.
    3. :meth:`end` stores its end with its price, once.

    Another process ends a session with :meth:`ask_end`; its own process looks for such
    wishes with :meth:`requested_ends`. :meth:`end_lost` ends the sessions of dead processes, and
    those that their process has not ended. All methods raise :exc:`ServiceUnavailable` if
    the database does not respond.
    """

    def __init__(self, database: Database, owner: str):
        self._database = database
        self.owner = owner

    open = writing(open_session)
    forget = writing(forget_session)
    find = reading(find_session)
    all = reading(list_browser_sessions)
    note_call = writing(note_call)
    end = writing(end_session)
    ask_end = writing(ask_end)

    async def requested_ends(self) -> list[str]:
        """Return the sessions of this process that other processes have requested to end."""
        return await self._database.read(requested_ends, self.owner)

    end_lost = writing(end_lost_sessions)
