"""Counts of the content of the job database, over all teams, for ``GET /metrics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import exists, func, select

from scraper_service.storage.frontier.leases import live_workers
from scraper_service.storage.job_records import (
    ACTIVE,
    DeliveryState,
    JobState,
    RowState,
    UrlKind,
)
from scraper_service.storage.schema import (
    delivery,
    disk_use,
    frontier,
    host,
    job,
    webhook,
    worker,
)
from scraper_service.storage.transactions import inline, now_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

PAUSED = "paused"  # a state for readers; the column keeps the state before the pause


@frozen
class StoredCounts:
    """Counts over all teams. Ages are in seconds, 0 if there is nothing."""

    #: Jobs of callers by kind and state.
    jobs: Mapping[tuple[str, str], int]
    #: URLs of active jobs: ``pending``, ``leased`` and ``held``.
    urls: Mapping[str, int]
    #: Webhook deliveries that have not arrived yet.
    webhooks_pending: int
    #: Hosts to which no request starts now, because they refused requests.
    hosts_held: int
    #: Bytes that teams have stored.
    stored_bytes: int
    #: Processes that work on jobs, without those that end.
    workers: int
    #: Live processes by kind and state: ``running`` or ``draining``.
    processes: Mapping[tuple[str, str], int]
    #: Jobs that run, counted in each process that runs them.
    running_jobs: int
    #: Age of the oldest job that has not started.
    queue_age_s: float
    #: Time since the leases of the longest silent process with leased URLs ended.
    lost_age_s: float


def read_counts(connection: Connection) -> StoredCounts:
    """Return the counts.

    Reads the jobs, but neither their pages nor their URLs: 100,000 jobs take some 50 ms.
    """
    now = now_of(connection)
    oldest = connection.scalar(
        select(func.min(job.c.created_at)).where(
            job.c.state == JobState.QUEUED, job.c.paused_at.is_(None)
        )
    )
    # The rows of processes that have ended are kept for a day; most have no leased URL.
    holds_urls = exists().where(
        frontier.c.state == inline(RowState.LEASED),  # as in the partial index
        frontier.c.owner == worker.c.id,
    )
    silent = select(func.min(worker.c.until)).where(worker.c.until < now, holds_urls)
    leases_end = connection.scalar(silent)
    live = live_workers(connection)
    return StoredCounts(
        jobs=_jobs(connection),
        urls=_urls(connection),
        webhooks_pending=_count(
            connection,
            select(func.count())
            .select_from(delivery.join(webhook, webhook.c.job_id == delivery.c.job_id))
            .where(
                webhook.c.due_at.is_not(None),
                delivery.c.state == inline(DeliveryState.PENDING),
            ),
        ),
        hosts_held=_count(
            connection, select(func.count()).where(host.c.opens_at > now)
        ),
        stored_bytes=int(_count(connection, select(func.sum(disk_use.c.bytes)))),
        workers=sum(each.runs_jobs and not each.drains for each in live),
        processes=Counter(
            (each.kind or "unknown", "draining" if each.drains else "running")
            for each in live
        ),
        running_jobs=sum(each.jobs for each in live),
        queue_age_s=0.0 if oldest is None else max(0.0, now - oldest),
        lost_age_s=0.0 if leases_end is None else max(0.0, now - leases_end),
    )


def _jobs(connection: Connection) -> dict[tuple[str, str], int]:
    ended = (
        select(job.c.kind, job.c.state, func.count())
        .where(job.c.parent_id.is_(None), job.c.state.not_in(ACTIVE))
        .group_by(job.c.kind, job.c.state)
    )
    is_paused = job.c.paused_at.is_not(None)
    active = (
        select(job.c.kind, job.c.state, is_paused, func.count())
        .where(job.c.parent_id.is_(None), job.c.state.in_(ACTIVE))
        .group_by(job.c.kind, job.c.state, is_paused)
    )
    found = {(kind, state): count for kind, state, count in connection.execute(ended)}
    for kind, state, paused, count in connection.execute(active):
        key = (kind, PAUSED if paused else state)
        found[key] = found.get(key, 0) + count
    return found


def _urls(connection: Connection) -> dict[str, int]:
    # By the counts of the jobs: a frontier may have millions of rows.
    unfinished, held = connection.execute(
        select(func.sum(job.c.open), func.sum(job.c.held)).where(
            job.c.state.in_(ACTIVE)
        )
    ).one()
    leased = _count(
        connection,
        select(func.count()).where(
            frontier.c.state == inline(RowState.LEASED),
            frontier.c.kind == UrlKind.PAGE,
        ),
    )
    pending = max(0, int(unfinished or 0) - leased)
    return {"pending": pending, "leased": leased, "held": int(held or 0)}


def _count(connection: Connection, statement: Select[int]) -> int:
    return connection.scalar(statement) or 0
