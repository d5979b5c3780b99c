"""What a team has used and has under way, as the API tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.storage.accounts import usage

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.services.accounts import Team
    from scraper_service.services.scraping import Scrapes
    from scraper_service.storage.accounts.credits import Call
    from scraper_service.storage.accounts.usage import Balance, Place, Used
    from scraper_service.storage.database import Database


@frozen
class QueueStatus:
    """Pages under way, pages that wait, and when one last came.

    ``succeeded_at`` are seconds since 1970, None before the first page.
    """

    active: int
    waiting: int
    succeeded_at: float | None


class Usage:
    """Reads of a team's own numbers."""

    def __init__(self, database: Database, scrapes: Scrapes, settings: BaseSettings):
        self._database = database
        self._scrapes = scrapes
        self.tokens_per_credit = settings.getint("TOKENS_PER_CREDIT")

    async def balance(self, team: Team) -> Balance:
        """Return what the team may still spend."""
        return await self._database.read(usage.read_balance, team.id)

    async def used(self, team: Team) -> list[Used]:
        """Return what the team has used, by day and key."""
        return await self._database.read(usage.read_used, team.id)

    async def concurrency(self, team: Team) -> int:
        """Return how many pages of the team are under way, in all processes."""
        places = self._scrapes.places
        elsewhere = await places.in_use_elsewhere(team.id)
        return places.in_use(team.id) + elsewhere

    async def queue(self, team: Team) -> QueueStatus:
        """Return how many pages of the team are under way, and how many wait."""
        active = await self.concurrency(team)
        found = await self._database.read(usage.read_queue, team.id)
        of_jobs = active - self._scrapes.under_way(team.id)
        waiting = max(0, found.pages - of_jobs) + self._scrapes.waiting(team.id)
        return QueueStatus(active, waiting, found.succeeded_at)

    async def activity(
        self, team: Team, endpoint: str | None, after: Place | None, limit: int
    ) -> list[Call]:
        """Return calls of the last day, the latest first; one more if there are more."""
        return await self._database.read(
            usage.read_activity, team.id, endpoint, after, limit
        )
