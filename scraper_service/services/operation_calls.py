"""What the API calls to start and read operations of several steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.errors import JobNotFound, OptionUnavailable
from scraper_service.options.available import require_available
from scraper_service.storage.admission import Terms

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.download.engines import Engines
    from scraper_service.options.operations import OperationOptionsT
    from scraper_service.services.accounts import Team
    from scraper_service.services.operations import Operations
    from scraper_service.storage.operations import OperationRow
    from scraper_service.storage.politeness.team_limits import TeamPlaces


class OperationCalls:
    """Operations of a team at a time."""

    def __init__(
        self,
        operations: Operations,
        engines: Engines,
        places: TeamPlaces,
        settings: BaseSettings,
    ):
        self._operations = operations
        self._engines = engines
        self._places = places
        self._most_jobs = settings.getint("MAX_ACTIVE_JOBS")
        self._webhook_url: str | None = settings["WEBHOOK_URL"] or None

    async def start(self, options: OperationOptionsT, team: Team, version: int) -> str:
        """Store an operation and have it run; return its id.

        Raises :exc:`OptionUnavailable` and what :meth:`Operations.start` raises.
        """
        try:
            # The formats are those that the operation needs, whatever the caller said.
            scrape = evolve(options.scrape, formats=())
            require_available(scrape, self._engines.missing)
        except OptionUnavailable as error:
            error.nested = True
            raise
        work = self._operations.kinds[options.kind]
        terms = Terms(
            team_id=team.id,
            key_id=team.key_id,
            page_price=None if team.is_unlimited else work.price(options),
            most_jobs=self._most_jobs,
            webhook_url=self._webhook_url,
        )
        self._places.limit_to(team.id, team.concurrency)
        return await self._operations.start(
            options, terms, version, work.pages(options)
        )

    async def read(
        self, operation_id: str, team: Team, kind: str, not_found: str
    ) -> OperationRow:
        """Return an operation; raise :exc:`JobNotFound` with the text ``not_found``."""
        found = await self._operations.read(operation_id, team.id, kind)
        if found is None:
            raise JobNotFound(not_found)
        return found
