"""What stands for the secret of the service in the job database.

Keys and entrusted values are unreadable with another secret. Without this mark, a service or
command with the wrong one would only find that every key is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from scraper_service.storage.schema import installation
from scraper_service.storage.secrets import derived_key

if TYPE_CHECKING:
    from sqlalchemy import Connection

NAME = "secret"
ANOTHER = (
    "the secret is not the one that this job database was last used with, so its API keys are"
    " not valid here: set the same SCRAPER_KEY_SECRET, or the same key.secret in the data"
    " folder, for all services, nodes and commands"
)


def is_known(connection: Connection, secret: bytes) -> bool:
    """Return False if the last service of this database had another secret."""
    found = connection.scalar(
        select(installation.c.value).where(installation.c.name == NAME)
    )
    return found is None or found == mark_of(secret)


def note_secret(connection: Connection, secret: bytes) -> bool:
    """Store what stands for a secret. Return False if another one was stored."""
    was_known, mark = is_known(connection, secret), mark_of(secret)
    changed = connection.execute(
        update(installation).where(installation.c.name == NAME).values(value=mark)
    )
    if not changed.rowcount:
        connection.execute(insert(installation).values(name=NAME, value=mark))
    return was_known


def mark_of(secret: bytes) -> str:
    """Return what stands for a secret; nobody can compute it back."""
    return derived_key(secret, "mark").hex()[:32]
