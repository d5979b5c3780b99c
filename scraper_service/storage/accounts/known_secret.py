"""What stands for the secret of the service in the job database.

Keys and entrusted values are unreadable with another secret. Without this mark, a service or
command with the wrong one would only find that every key is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from scraper_service.storage.schema import installation
from scraper_service.storage.secrets import mark_of
from scraper_service.storage.transactions import upsert

if TYPE_CHECKING:
    from sqlalchemy import Connection

NAME = "secret"
ANOTHER = (
    "the secret is not the one that this job database is used with, so its API keys are not"
    " valid here: set the same SCRAPER_KEY_SECRET, or the same key.secret in the data folder,"
    " for all services, nodes and commands. If that secret is lost, `scraper-service keys"
    " forget-secret` lets a service start with a new one"
)


def is_known(connection: Connection, secret: bytes) -> bool:
    """Return False if the services of this database have another secret."""
    found = connection.scalar(
        select(installation.c.value).where(installation.c.name == NAME)
    )
    return found is None or found == mark_of(secret)


def note_secret(connection: Connection, secret: bytes) -> None:
    """Store what stands for a secret that :func:`is_known`."""
    # Another service may start at the same time.
    upsert(connection, installation, [{"name": NAME, "value": mark_of(secret)}])


def forget_secret(connection: Connection) -> None:
    """Let the next service of this database have any secret."""
    connection.execute(delete(installation).where(installation.c.name == NAME))
