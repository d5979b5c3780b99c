"""Work that any process may do for all: expiry, ends of long pauses, quotas of disks."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from scraper_service.crawling.artefacts import shared_artefacts
from scraper_service.crawling.observability import job_logger, log_end, with_facts
from scraper_service.errors import ServiceUnavailable, StoreUnavailable, plural
from scraper_service.options.limits import DAY_S
from scraper_service.shared_objects import ChangePoll
from scraper_service.storage import politeness
from scraper_service.storage.accounts import audit, disk_use, sessions, usage
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts.audit import SERVICE, Actor
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.uploads import Uploads
from scraper_service.storage.frontier.job_warnings import JobWarning, sentence_of
from scraper_service.storage.jobs.job_control import pause_full_job
from scraper_service.storage.jobs.jobs import Jobs
from scraper_service.storage.monitors import checks
from scraper_service.storage.page_index import PageIndex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.job_process import Presence
    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)

EXPIRE_S = 30.0
QUOTA_S = 1.0
LEDGER_S = 3600.0
CHECKS_AT_ONCE = 100


def keep_up(presence: Presence, database: Database, settings: BaseSettings) -> None:
    """Repeat this work while a process is present."""
    presence.every(EXPIRE_S, partial(expire, database, settings))
    is_due = ChangePoll(database.version).is_due
    pause_full = partial(pause_full_jobs, database, settings)
    presence.every(QUOTA_S, pause_full, is_due=is_due)
    presence.every(LEDGER_S, partial(expire_charges, database, settings))
    most_days = settings.getint("PAUSE_MAX_DAYS")
    presence.every(EXPIRE_S, partial(end_long_pauses, database, most_days))


async def expire_charges(database: Database, settings: BaseSettings) -> None:
    """Delete the charges of long ago."""
    if days := settings.getint("LEDGER_DAYS"):
        for team_id in await database.read(ledger.teams_with_charges, days):
            while await database.write(ledger.expire, team_id, days):
                pass


async def end_long_pauses(database: Database, most_days: int) -> None:
    """Cancel jobs that have been paused for ``most_days``."""
    days = plural(most_days, "day")
    reason = f"The job was paused for {days}, the longest time for a pause."
    jobs = Jobs(database)
    for job_id in await jobs.end_long_pauses(most_days * DAY_S, reason):
        if (job := await jobs.get(job_id, None)) is not None:
            log_end(job)


async def pause_full_jobs(database: Database, settings: BaseSettings) -> None:
    """Pause the crawls and batches of teams that have used up their disk quota.

    Their running pages are still stored, and nothing is lost.
    """
    usual_mb = settings.getint("TEAM_DISK_MB")
    actor = Actor(SERVICE) if settings.getint("AUDIT_DAYS") else None
    for team_id, limit in await database.read(disk_use.full_teams, usual_mb):
        mib = limit // disk_use.MIB
        for job_id in await database.read(disk_use.running_jobs, team_id):
            if await database.write(pause_full_job, job_id, mib, actor):
                facts = with_facts(job=job_id, event="paused")
                text = sentence_of(JobWarning.DISK_FULL, quota_mib=mib)
                job_logger.warning("job %s: %s", job_id, text, extra=facts)


async def expire(database: Database, settings: BaseSettings) -> None:
    """Delete expired jobs, pages, files and counts, and old entries of the audit log.

    A step that fails is left for the next time. The others still do their work.
    """
    for step in _steps(database, settings):
        try:
            while await step():
                pass
        except StoreUnavailable as error:
            logger.warning("files of expired pages are deleted later: %s", error)
        except ServiceUnavailable:
            continue  # logged where it was raised
        except Exception:
            logger.exception("expired rows could not be deleted")


def _steps(
    database: Database, settings: BaseSettings
) -> Iterator[Callable[[], Awaitable[int | None]]]:
    """Yield what deletes a slice each, and returns 0 or None at its end."""
    yield partial(database.write, politeness.forget_hosts)
    yield partial(database.write, politeness.forget_permits)
    yield partial(database.write, usage.forget)
    yield Jobs(database).expire
    yield PageIndex(database).expire
    yield partial(database.write, artefacts.expire)
    yield partial(database.write, sessions.expire_sessions)
    yield partial(hide_left_behind, database)
    yield partial(database.write, disk_use.fold)
    yield partial(database.write, audit.expire, settings.getint("AUDIT_DAYS"))
    yield Uploads(database).expire
    yield partial(_sweep, database, settings)


async def hide_left_behind(database: Database) -> int:
    """Hide some checks of deleted monitors, and the jobs that they have started."""
    found = await database.read(checks.orphaned_checks, CHECKS_AT_ONCE)
    for check_id in found:
        await database.write(checks.hide_check, check_id)
        for step in await database.read(checks.step_ids, check_id):
            await database.write(checks.hide_check, step)
    return len(found)


async def _sweep(database: Database, settings: BaseSettings) -> None:
    await shared_artefacts(settings).sweep(database)  # a slice of the store each time
