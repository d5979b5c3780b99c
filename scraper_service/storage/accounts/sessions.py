"""Named sessions: cookies and local storage of a team, encrypted.

The state is Playwright's storage state with ``cookies`` and ``origins``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen
from sqlalchemy import delete, select

from scraper_service.errors import SecretsUnreadable
from scraper_service.storage.accounts import audit
from scraper_service.storage.schema import session
from scraper_service.storage.secrets import Box
from scraper_service.storage.transactions import dialect_insert, now_of, transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.storage.accounts.audit import Actor

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


@transaction(row="{name}")
def save_named_session(
    connection: Connection, name: str, team_id: str, box: SessionBox, *states: StateT
) -> None:
    """Do as :func:`save_session`, with the name first, which a caller locks."""
    save_session(connection, team_id, name, box, *states)


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
