"""Rate limits per team and mode: a 60-second window that starts with its first call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sqlalchemy import case, or_, select

from scraper_service.errors import RateLimited
from scraper_service.storage.schema import rate
from scraper_service.storage.transactions import dialect_insert, now_of, transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.errors import ServiceError

WINDOW_S = 60


@transaction(first="{team_id}/{mode}")
def count_call(
    connection: Connection, team_id: str, mode: str, most: int
) -> ServiceError | None:
    """Count a call if fewer than ``most`` calls were made in this window.

    Otherwise return the error with the end of the window.
    """
    now = now_of(connection)
    is_over = rate.c.until <= now
    counted = connection.execute(
        dialect_insert(connection, rate)
        .values(team_id=team_id, mode=mode, used=1, until=now + WINDOW_S)
        .on_conflict_do_update(
            index_elements=("team_id", "mode"),
            set_={
                "used": case((is_over, 1), else_=rate.c.used + 1),
                "until": case((is_over, now + WINDOW_S), else_=rate.c.until),
            },
            where=or_(is_over, rate.c.used < most),
        )
        .returning(rate.c.used)
    )
    if counted.first() is not None:
        return None
    query = select(rate.c.used, rate.c.until).where(
        rate.c.team_id == team_id, rate.c.mode == mode
    )
    used, until = connection.execute(query).one()
    return RateLimited(used, max(1, math.ceil(until - now)), until)
