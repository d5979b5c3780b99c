"""What a team has used: credits, running and waiting pages, bytes; its audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.services.accounts import DiskQuota
from scraper_service.storage.accounts import audit, usage

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.services.accounts import Team
    from scraper_service.services.scraping import Scrapes
    from scraper_service.storage.accounts.audit import AuditEntry, AuditPosition
    from scraper_service.storage.accounts.credits import Call
    from scraper_service.storage.accounts.usage import Balance, CallPosition, Used
    from scraper_service.storage.database import Database


@frozen
class QueueStatus:
    """The pages of a team that run and wait."""

    active: int
    waiting: int
    #: Time of the last fetched page in seconds since 1970; None before the first page.
    succeeded_at: float | None


class Usage:
    """Reads credits, concurrency and recent calls of a team."""

    def __init__(self, database: Database, scrapes: Scrapes, settings: BaseSettings):
        self._database = database
        self._scrapes = scrapes
        self.tokens_per_credit = settings.getint("TOKENS_PER_CREDIT")
        self.disk = DiskQuota(database, settings.getint("TEAM_DISK_MB"))

    async def balance(self, team: Team) -> Balance:
        """Return the credits that the team has left."""
        return await self._database.read(usage.read_balance, team.id)

    async def read_used(self, team: Team) -> list[Used]:
        """Return the credits that the team has used, by day and key."""
        return await self._database.read(usage.read_used, team.id)

    def concurrency(self, team: Team) -> int:
        """Return the number of the team's running pages in all processes."""
        places = self._scrapes.places
        return places.in_use(team.id) + places.in_use_elsewhere(team.id)

    async def queue(self, team: Team) -> QueueStatus:
        """Return how many pages of the team run and how many wait."""
        active = self.concurrency(team)
        found = await self._database.read(usage.read_queue, team.id)
        of_jobs = active - self._scrapes.under_way(team.id)
        waiting = max(0, found.pages - of_jobs) + self._scrapes.waiting(team.id)
        return QueueStatus(active, waiting, found.succeeded_at)

    async def activity(
        self, team: Team, endpoint: str | None, after: CallPosition | None, limit: int
    ) -> list[Call]:
        """Return calls of the last day, the latest first.

        Up to ``limit + 1`` calls: the last shows that there are more.
        """
        return await self._database.read(
            usage.read_activity, team.id, endpoint, after, limit
        )

    async def audit(
        self, team: Team, after: AuditPosition | None, limit: int
    ) -> list[AuditEntry]:
        """Return entries of the audit log, the latest first.

        Up to ``limit + 1`` entries: the last shows that there are more.
        """
        return await self._database.read(audit.read_latest, team.id, after, limit)
