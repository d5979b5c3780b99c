"""Starts and reads extract, agent, deep research and llms.txt jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.errors import (
    JobNotFound,
    OptionUnavailable,
    ServiceUnavailable,
)
from scraper_service.options.availability import (
    missing_model,
    require_agent,
    require_available,
    require_researchable,
)
from scraper_service.options.extraction import AgentOptions, ResearchOptions
from scraper_service.options.limits import Retention, under_policy
from scraper_service.services.accounts import DiskQuota
from scraper_service.services.metrics.tracing import note_job
from scraper_service.storage.job_records import ACTIVE, JobState
from scraper_service.storage.jobs import admission, operations
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.crawling.download.engines import Engines
    from scraper_service.crawling.politeness.team_limits import TeamPermits
    from scraper_service.options.extraction import OperationOptionsT
    from scraper_service.services.accounts import Team
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.operations.operations import Work
    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.operations import OperationEntry, OperationRow

AGENT_CREDITS = 5  # that a team must have, unless the caller set fewer: one page


class OperationCalls:
    """Starts and reads the operations of a team."""

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        kinds: Mapping[str, Work],
        engines: Engines,
        permits: TeamPermits,
    ):
        settings = runner.settings
        self._database = database
        self._runner = runner
        self._kinds = kinds
        self._engines = engines
        self._permits = permits
        self._most_jobs = settings.getint("MAX_ACTIVE_JOBS")
        self._webhook_url: str | None = settings["WEBHOOK_URL"] or None
        self._no_model = missing_model(settings)
        self._retention = Retention.of(settings)
        self._disk = DiskQuota(database, settings.getint("TEAM_DISK_MB"))
        #: The name of the language model, None without a model.
        self.model_name: str | None = settings["LLM_MODEL"] or None

    async def start(
        self, options: OperationOptionsT, team: Team, version: int
    ) -> operations.StartedOperation:
        """Store an operation that is run soon.

        Raises :exc:`OptionUnavailable`, :exc:`~scraper_service.errors.OutOfCredits`,
        :exc:`~scraper_service.errors.QueueFull`, and during shutdown
        :exc:`ServiceUnavailable`.
        """
        options = under_policy(options, team.site_policy)
        try:
            # The operation sets the formats itself.
            scrape = evolve(options.scrape, formats=())
            require_available(scrape, self._engines.missing)
        except OptionUnavailable as error:
            error.nested = True
            raise
        if isinstance(options, ResearchOptions):
            require_researchable(self._no_model)
        if isinstance(options, AgentOptions):
            require_agent(self._no_model)
        work = self._kinds[options.kind]
        terms = Terms(
            team_id=team.id,
            key_id=team.key_id,
            page_price=None if team.is_unlimited else work.price(options),
            most_jobs=self._most_jobs,
            webhook_url=self._webhook_url,
            retention_s=self._retention.seconds(options.retention_days),
            disk_bytes=self._disk.limit(team),
        )
        self._permits.limit_to(team.id, team.concurrency)
        pages = work.pages(options)
        if isinstance(options, AgentOptions):
            terms = evolve(terms, least_pages=min(pages, AGENT_CREDITS))
        if self._runner.is_closing:
            raise ServiceUnavailable("The service is stopping.")
        found = await self._database.write(
            admission.create_operation, terms, options, version, pages
        )
        note_job(found.id)
        self._runner.wake()
        return found

    async def read(
        self, operation_id: str, team: Team, kind: str, not_found: str
    ) -> OperationRow:
        """Return an operation. Raises :exc:`JobNotFound` with the text ``not_found``."""
        found = await self._database.read(
            operations.read_operation, operation_id, team.id, kind
        )
        if found is None:
            raise JobNotFound(not_found)
        return found

    async def newest(
        self, team: Team, kind: str, before: float | None, limit: int
    ) -> list[OperationEntry]:
        """Return the newest operations of a team that started before a time."""
        return await self._database.read(
            operations.read_operations, team.id, kind, before, limit
        )

    async def cancel(self, found: OperationRow, team: Team, error: str) -> JobState:
        """Cancel an operation unless it has ended. Return its state afterwards.

        ``error`` is for its caller.
        """
        if found.state not in ACTIVE:
            return found.state
        jobs = Jobs(self._database)
        if await jobs.end(found.id, JobState.CANCELLED, error, team.actor):
            await self._runner.cancel(found.id)
            self._runner.wake()  # its steps end too
        after = await self._database.read(
            operations.read_operation, found.id, team.id, found.kind
        )
        return JobState.CANCELLED if after is None else after.state
