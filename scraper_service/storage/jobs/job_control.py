"""Changes of a job by its caller: pause, other limits, another attempt.

Functions run inside a transaction. Those that may refuse a change return errors, since raising
would end the transaction for other functions, too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import asdict, evolve, frozen
from sqlalchemy import and_, func, select, update

from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
    InvalidOptions,
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    OutOfCredits,
    SecretsUnreadable,
    ServiceError,
    ServiceUnavailable,
    plural,
)
from scraper_service.options import catalogue
from scraper_service.options.jobs import CHANGEABLE, structure, unstructure
from scraper_service.options.limits import DAY_S, HIDDEN
from scraper_service.options.parsing import short
from scraper_service.options.scrape import ScrapeOptions, broken_rules
from scraper_service.options.urls import host_of
from scraper_service.storage import job_secrets, webhooks
from scraper_service.storage.accounts import audit, disk_use
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.frontier.job_warnings import (
    OF_END,
    JobWarning,
    remove_warnings,
    sentence_of,
)
from scraper_service.storage.frontier.open_job import ROBOTS, OpenJob
from scraper_service.storage.frontier.outcomes import end_job
from scraper_service.storage.job_records import (
    ACTIVE,
    MAX_LIMIT,
    Effect,
    Job,
    JobChange,
    JobState,
    RowState,
    UrlKind,
)
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.jobs.admission import Terms, use_key
from scraper_service.storage.schema import (
    delivery,
    event,
    frontier,
    job,
    page,
)
from scraper_service.storage.transactions import (
    IN_ORDER,
    lock_job,
    now_of,
    number_of,
    rows_in,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.options.jobs import ChangeRequest, RetryRequest
    from scraper_service.storage.accounts.audit import Actor


@frozen
class ChangedJob:
    """A job after a change."""

    job: Job
    change: JobChange


@transaction(first="{team_id}", apart=True)
def change_job(
    connection: Connection,
    job_id: str,
    team_id: str,
    request: ChangeRequest,
    actor: Actor | None = None,
) -> ChangedJob | ServiceError:
    """Pause or resume a job, and change its options.

    Values that the job has already change nothing. A job without open URLs is completed when
    it is resumed. A finished job takes only another retention. May return :exc:`JobNotFound`,
    :exc:`JobFinished`, :exc:`OptionUnavailable` and :exc:`OutOfCredits`, without a change.
    """
    lock_team(connection, team_id)
    row = job_rows.lock_own_job(connection, job_id, team_id)
    if row is None:
        return JobNotFound("Job not found")
    if row.state not in ACTIVE and not request.fits_finished:
        return JobFinished(row.kind, row.state)
    for name in request.options:
        if name not in CHANGEABLE[row.kind]:
            return OptionUnavailable(
                name, f"A {row.kind} has no such option to change."
            )
    days = request.options.get("retention_days")
    if days is not None and json.loads(row.options)["scrape"]["zero_data_retention"]:
        return OptionUnavailable("retention_days", HIDDEN.format(short(days)))
    changed = OpenJob(connection, row)
    before = _options_in_force(changed)
    values: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in request.options.items()
    }
    if "limit" in values:
        values["limit"] = min(values["limit"], MAX_LIMIT)
    values = {name: value for name, value in values.items() if value != before[name]}
    pauses = request.paused not in {None, row.paused_at is not None}
    if not (values or pauses):
        return _read(connection, changed, Effect())
    if "retention_days" in values:
        changed.retention_s = values["retention_days"] * DAY_S
    if row.state not in ACTIVE:
        kept = _keep_finished(connection, changed, row)
        if isinstance(kept, ChangedJob):
            _record(connection, actor, job_id, values)
        return kept
    if "limit" in values and (refused := changed.change_limit(values["limit"])):
        return refused
    effect = _apply(changed, values) if values else Effect()
    if pauses:
        changed.paused_at = changed.at if request.paused else None
        kind = "paused" if request.paused else "resumed"
        changed.note(kind, _detail(changed, Effect()))
    _record(connection, actor, job_id, values, request.paused if pauses else None)
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(
            revision=row.revision + 1,
            options=changed.options,
            retention_s=changed.retention_s,
        )
    )
    changed.write(JobState(row.state))
    return _read(connection, changed, effect)


def _record(
    connection: Connection,
    actor: Actor | None,
    job_id: str,
    values: Mapping[str, Any],
    paused: bool | None = None,
) -> None:
    """Write a change into the audit log: names of options, not their values."""
    if values:
        audit.record(connection, actor, "job.changed", job_id, options=sorted(values))
    if paused is not None:
        action = "job.paused" if paused else "job.resumed"
        audit.record(connection, actor, action, job_id)


def _keep_finished(
    connection: Connection, changed: OpenJob, row: Row[Any]
) -> ChangedJob | OptionUnavailable:
    """Write the new retention of a finished job, which counts from its end.

    Refuses one that would delete the job now: the key may lack the right to delete it.
    """
    options = json.loads(row.options)
    options["retention_days"] = changed.retention_s / DAY_S
    changed.options = json.dumps(options)
    expires_at = row.expires_at - row.retention_s + changed.retention_s
    if expires_at <= changed.at:
        age_days = (changed.at - row.expires_at + row.retention_s) / DAY_S
        return OptionUnavailable(
            "retention_days",
            f"The job ended {age_days:.3g} days ago: retentionDays must be longer, got"
            f" {changed.retention_s / DAY_S:g}. DELETE /v2/jobs/{changed.job_id} deletes it.",
        )
    connection.execute(
        update(job)
        .where(job.c.id == changed.job_id)
        .values(
            options=changed.options,
            retention_s=changed.retention_s,
            expires_at=expires_at,
        )
    )
    return _read(connection, changed, Effect())


def _options_in_force(changed: OpenJob) -> dict[str, Any]:
    options = json.loads(changed.options)
    found = {name: options.get(name) for name in CHANGEABLE[changed.kind]}
    if "limit" in found:
        found["limit"] = changed.limit  # which may be lower, for lack of credits
    found["retention_days"] = changed.retention_s / DAY_S
    return found


def _detail(changed: OpenJob, effect: Effect) -> str:
    return json.dumps(asdict(JobChange(_options_in_force(changed), effect)))


def _apply(changed: OpenJob, values: Mapping[str, Any]) -> Effect:
    """Apply changed options to a job, and let held URLs in that a higher limit admits."""
    changed.options = json.dumps({**json.loads(changed.options), **values})
    effect = Effect(changed.let_in())
    changed.note("updated", _detail(changed, effect))
    return effect


def _read(connection: Connection, changed: OpenJob, effect: Effect) -> ChangedJob:
    found = _stored_job(connection, changed.job_id, changed.team_id)
    return ChangedJob(found, JobChange(_options_in_force(changed), effect))


def _stored_job(connection: Connection, job_id: str, team_id: str) -> Job:
    found = job_rows.get_job(connection, job_id, team_id)
    assert found is not None
    return found


def long_paused(connection: Connection, most_s: float) -> list[str]:
    """Return the ids of jobs that have been paused for ``most_s`` seconds."""
    query = select(job.c.id).where(
        job.c.state.in_(ACTIVE), job.c.paused_at <= now_of(connection) - most_s
    )
    return list(connection.scalars(query))


@transaction(row="{job_id}")
def pause_full_job(
    connection: Connection, job_id: str, quota_mib: int, actor: Actor | None
) -> bool:
    """Pause a job whose team has no disk space left. Return False if it does not run any more."""
    row = connection.execute(
        select(job).where(job.c.id == job_id).with_for_update()
    ).one_or_none()
    if row is None or row.state not in ACTIVE or row.paused_at is not None:
        return False
    paused = OpenJob(connection, row)
    paused.paused_at = paused.at
    paused.warn(JobWarning.DISK_FULL, quota_mib=quota_mib)
    paused.note("paused", _detail(paused, Effect()))
    connection.execute(
        update(job).where(job.c.id == job_id).values(revision=row.revision + 1)
    )
    paused.write(JobState(row.state))
    reason = sentence_of(JobWarning.DISK_FULL, quota_mib=quota_mib)
    audit.record(
        connection, actor, "job.paused", job_id, team_id=row.team_id, reason=reason
    )
    return True


@transaction(row="{job_id}")
def end_long_pause(
    connection: Connection, job_id: str, most_s: float, reason: str
) -> bool:
    """Cancel a job that has been paused for ``most_s`` seconds. Return True if it was."""
    paused_at = lock_job(connection, job_id).paused_at
    if paused_at is None or paused_at > now_of(connection) - most_s:
        return False  # resumed meanwhile
    return end_job(connection, job_id, JobState.CANCELLED, reason)


# -- another attempt at failed pages -------------------------------------------------

IDS_AT_ONCE = 1000  # in one statement
# Codes of failed pages that rules have refused: another attempt would not help.
REFUSED = (ROBOTS, "CRAWL_DENIAL", "EXTERNAL_LINK")
NO_ROOM = "The limit of the job, {}, leaves out {}."
_SPELLED = {option.attribute: option.name("v2") for option in catalogue.SCRAPE}

FailedT: TypeAlias = "Sequence[Row[*tuple[Any, ...]]]"


@frozen
class RetriedJob:
    """A job after a retry."""

    job: Job
    #: The number of pages that are fetched again.
    retried: int
    warning: str | None = None


@transaction(first="{terms.team_id}", apart=True)
def retry_pages(
    connection: Connection,
    job_id: str,
    terms: Terms,
    request: RetryRequest,
    idempotency_key: str | None = None,
) -> RetriedJob | ServiceError:
    """Make failed pages of a job pending again. A completed job becomes active.

    Takes the oldest pages first, as far as the limit of the job allows. May return
    :exc:`JobNotFound`, :exc:`JobFinished` for a cancelled or failed job,
    :exc:`HeadersForgotten`, :exc:`InvalidOptions`, :exc:`DiskQuotaExceeded`,
    :exc:`OutOfCredits` and :exc:`IdempotencyKeyUsed`, without a change.
    """
    ledger.lock_team(connection, terms.team_id)
    row = job_rows.lock_own_job(connection, job_id, terms.team_id)
    if row is None:
        return JobNotFound("Job not found")
    if row.state not in {*ACTIVE, JobState.COMPLETED}:
        return JobFinished(row.kind, row.state)
    if full := disk_use.refusal(connection, terms.team_id, terms.disk_bytes):
        return full
    failed = _failed_pages(connection, job_id, request)
    opened = OpenJob(connection, row)
    chosen = failed if opened.free is None else failed[: opened.free]
    left = len(failed) - len(chosen)
    warning = (
        NO_ROOM.format(
            plural(opened.limit or 0, "page"), plural(left, "more failed page")
        )
        if left
        else None
    )
    if not chosen:
        return RetriedJob(_stored_job(connection, job_id, row.team_id), 0, warning)
    if row.state not in ACTIVE and (lost := _lost_secrets(connection, row, request)):
        return lost
    texts = _new_options(row, chosen, request)
    if isinstance(texts, ServiceError):
        return texts
    bill = _bill(connection, terms, opened, len(chosen))
    if isinstance(bill, ServiceError):
        return bill
    if idempotency_key and not use_key(
        connection, terms.team_id, idempotency_key, opened.at
    ):
        ledger.give_back(connection, terms.team_id, bill["reserved"] - row.reserved)
        return IdempotencyKeyUsed("Idempotency key already used")
    try:
        parts, entrusted = _store_options(connection, row, texts, request.scrape)
    except SecretsUnreadable as error:
        ledger.give_back(connection, terms.team_id, bill["reserved"] - row.reserved)
        return ServiceUnavailable(str(error))
    _keep_errors(connection, job_id)
    _reopen(connection, chosen, parts)
    secrets = _secrets_of(row) | entrusted
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(
            state=JobState.SCRAPING,
            failed=row.failed - len(chosen),
            open=row.open + len(chosen),
            secrets=",".join(sorted(secrets)) or None,
            completed_at=None,
            expires_at=opened.at + row.retention_s,
            warning=remove_warnings(row.warning, *OF_END),
            revision=row.revision + 1,
            **bill,
        )
    )
    audit.record(connection, terms.actor, "job.retried", job_id, pages=len(chosen))
    found = _stored_job(connection, job_id, row.team_id)
    return RetriedJob(found, len(chosen), warning)


def _failed_pages(
    connection: Connection, job_id: str, request: RetryRequest
) -> FailedT:
    """Return the failed pages that match, the oldest first.

    A page that a redirect of another URL has delivered meanwhile is left out.
    """
    columns = frontier.c
    query = (
        select(columns.id, columns.url, columns.options, columns.error)
        .outerjoin(page, page.c.id == columns.page_id)
        .where(
            *rows_in(job_id, RowState.FAILED),
            page.c.id.is_(None),
            columns.kind == UrlKind.PAGE,
            columns.code.is_(None) | columns.code.not_in(REFUSED),
        )
        .order_by(*IN_ORDER)
    )
    for column, wanted in (
        (columns.code, request.codes),
        (columns.status, request.statuses),
        (columns.url, request.urls),
    ):
        if wanted:
            query = query.where(column.in_(wanted))
    rows = connection.execute(query).all()
    if request.hosts:
        return [row for row in rows if host_of(row.url) in request.hosts]
    return rows


def _lost_secrets(
    connection: Connection, row: Row[Any], request: RetryRequest
) -> HeadersForgotten | None:
    if webhooks.lacks_headers(connection, row.id):
        return HeadersForgotten("start another job for these pages.")
    lost = _secrets_of(row)
    if "headers" in request.scrape:
        lost.discard("headers")
    if not lost:
        return None
    names = " and ".join(sorted(lost, reverse=True))
    return HeadersForgotten(
        "send headers in scrapeOptions, or start another job for these pages.",
        f"The {names} of the job were deleted when it ended",
    )


def _secrets_of(row: Row[Any]) -> set[str]:
    return set((row.secrets or "").split(",")) - {""}


# -- options -------------------------------------------------------------------------


def _new_options(
    row: Row[Any], chosen: FailedT, request: RetryRequest
) -> dict[str | None, dict[str, Any]] | InvalidOptions:
    """Return the options with replaced ones, by the stored options of the pages."""
    if not request.scrape:
        return {}
    replaced = dict(request.scrape)
    found: dict[str | None, dict[str, Any]] = {}
    for text in {each.options for each in chosen}:
        options = (
            json.loads(row.options)["scrape"] if text is None else json.loads(text)
        )
        part = options.pop(job_secrets.KEY, job_secrets.OPTIONS)
        scrape = evolve(structure(options, ScrapeOptions), **replaced)
        if issues := broken_rules(scrape, lambda name: _SPELLED.get(name) or name):
            return InvalidOptions(
                [evolve(each, path=("scrapeOptions", *each.path)) for each in issues]
            )
        found[text] = {**unstructure(scrape), job_secrets.KEY: part}
    return found


def _store_options(
    connection: Connection,
    row: Row[Any],
    texts: Mapping[str | None, dict[str, Any]],
    replaced: Mapping[str, Any],
) -> tuple[dict[str | None, str], set[str]]:
    """Store the secrets of options. Former secrets are kept, without those in ``replaced``.

    Returns the options of rows as JSON, and the names of all secrets. Raises
    :exc:`SecretsUnreadable`.
    """
    found: dict[str | None, str] = {}
    names: set[str] = set()
    for number, (text, options) in enumerate(texts.items()):
        former = job_secrets.read(connection, row.id, options.pop(job_secrets.KEY))
        kept = {k: v for k, v in (former or {}).items() if k not in replaced}
        entrusted = {**kept, **job_secrets.hide(options)}
        if entrusted:
            options[job_secrets.KEY] = part = f"retry {row.revision} {number}"
            job_secrets.store(connection, row.id, part, entrusted)
        names |= entrusted.keys()
        found[text] = json.dumps(options)
    return found, names


def _reopen(
    connection: Connection, chosen: FailedT, parts: Mapping[str | None, str]
) -> None:
    values: dict[str, Any] = dict.fromkeys(
        ("page_id", "code", "error", "status", "losses", "ended_at", "owner")
    )
    for options in {each.options for each in chosen}:
        text = parts.get(options, options)
        ids = [each.id for each in chosen if each.options == options]
        for first in range(0, len(ids), IDS_AT_ONCE):
            connection.execute(
                update(frontier)
                .where(frontier.c.id.in_(ids[first : first + IDS_AT_ONCE]))
                .values(state=RowState.PENDING, attempts=0, options=text, **values)
            )


def _keep_errors(connection: Connection, job_id: str) -> None:
    """Copy errors from rows to events of failures: the retry clears them in the rows.

    A subquery looks up the row of each event. PostgreSQL, before it has analysed the tables,
    expects few rows: it would execute a join by comparing all events with all rows.
    """
    failures = and_(event.c.job_number == number_of(job_id), event.c.page_id.is_(None))
    for table, of_job in ((event, failures), (delivery, delivery.c.job_id == job_id)):
        of_event = frontier.c.id == table.c.row_id
        state = select(frontier.c.state).where(of_event).scalar_subquery()
        error = select(func.coalesce(frontier.c.error, "")).where(of_event)
        connection.execute(
            update(table)
            .where(
                of_job,
                table.c.kind == "page",
                table.c.detail.is_(None),
                state == RowState.FAILED,
            )
            .values(detail=error.scalar_subquery())
        )


# -- credits -------------------------------------------------------------------------


def _bill(
    connection: Connection, terms: Terms, opened: OpenJob, count: int
) -> dict[str, Any] | OutOfCredits:
    """Reserve credits for ``count`` more pages. Return columns for the job row.

    A crawl that ended may follow links of these pages, up to its limit. The limit is
    lowered to what the team can pay.
    """
    if terms.page_price is None:
        return {"reserved": opened.reserved}
    price = max(terms.page_price, opened.page_price or 0)
    limit = opened.limit
    wanted = opened.open + count if limit is None else limit - opened.pages
    paid = opened.reserved // price if price else wanted
    missing, least = max(0, wanted - paid), max(0, opened.open + count - paid)
    pages, left = ledger.take_up_to(connection, terms.team_id, price, missing, least)
    if pages < least:
        return OutOfCredits(price * least, left)
    bill: dict[str, Any] = {
        "page_price": price,
        "reserved": opened.reserved + price * pages,
    }
    if limit is not None and pages < missing:
        bill["page_limit"] = opened.pages + paid + pages
    return bill
