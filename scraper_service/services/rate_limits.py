"""How often teams may call, by mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.storage.accounts.rate_limits import count_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.options.limits import Mode
    from scraper_service.services.accounts import Team
    from scraper_service.storage.database import Database


class Rates:
    """Counts calls; ``usual`` are calls per minute by mode, of teams without own ones.

    0, or a mode that is missing, is unlimited and needs no database.
    """

    def __init__(self, database: Database, usual: Mapping[str, int]):
        self._database = database
        self._usual = usual

    async def count(self, team: Team, mode: Mode) -> None:
        """Count a call; raise :exc:`~scraper_service.errors.RateLimited`."""
        most = team.rates.get(mode, self._usual.get(mode, 0))
        if not most:
            return
        refusal = await self._database.write_first(
            count_call, f"{team.id}/{mode}", team.id, mode, most
        )
        if refusal is not None:
            raise refusal
