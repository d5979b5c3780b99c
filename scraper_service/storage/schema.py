"""The tables of the job database. Each change needs a migration in ``migrations``."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Sequence,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.event import listen

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _partial(where: str, name: str, *columns: str) -> Index:
    condition = text(where)
    return Index(name, *columns, sqlite_where=condition, postgresql_where=condition)


#: Owners of jobs, credits and pages. ``credits`` is the balance, ``plan_credits`` the
#: credits of the plan, ``concurrency`` the largest number of pages in flight, ``rates``
#: the calls per minute by mode as JSON. None means unlimited, or the settings.
#: ``disk_mb`` is the disk quota in MiB, None for that of the settings, 0 for none.
#: ``site_policy`` is JSON of a :class:`scraper_service.options.limits.SitePolicy`.
team = Table(
    "team",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("credits", BigInteger),
    Column("plan_credits", BigInteger),
    Column("concurrency", Integer),
    Column("rates", Text),
    Column("site_policy", Text),
    Column("disk_mb", BigInteger),
)

#: Hashed API keys: ``hash`` is HMAC-SHA256 in hex, ``hint`` the last four characters,
#: ``source`` is ``command`` or ``settings``, ``scope`` a
#: :class:`scraper_service.options.limits.KeyScope`, None for all.
key = Table(
    "key",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("hint", String(4), nullable=False),
    Column("source", String(20), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True)),
    Column("scope", String(10)),
)

# SQLite numbers rows only in columns of the type INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")

#: The numbers of jobs on PostgreSQL; SQLite has one writer, which counts.
JOB_NUMBERS = Sequence("job_number_seq", metadata=metadata)

#: Crawls, batches and model jobs, see
#: :class:`scraper_service.storage.job_records.Job`. ``number`` stands for the id in
#: tables with rows for each URL or page. The counts change only together
#: with the rows of the frontier. ``parent_id`` is the model job of a step, None for a job
#: of a caller. ``hook_events`` are the events for the webhook, None without a webhook, and
#: ``deliveries`` counts them. ``reserved`` credits are taken from the team and not yet
#: charged. ``copying`` is the position of :mod:`scraper_service.storage.frontier.outcomes`, None at
#: the end and for other jobs.
#: ``secrets`` are the names of its options that are stored encrypted, with commas.
#: ``target`` is what lists of jobs show of the URL, query or prompt, None with zero data
#: retention. ``header_names`` is JSON with the names of the headers in the options, whose
#: values are secret. ``retention_s`` is the life of a job after its last change.
#: ``page_counts`` is JSON of :class:`scraper_service.storage.frontier.job_counts.PageCounts`.
#: ``warning`` is JSON of codes, see :mod:`scraper_service.storage.frontier.job_warnings`.
#: ``stored`` are the bytes of the job in :data:`disk_use`.
job = Table(
    "job",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("number", BigInteger, nullable=False, server_default=text("0")),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("version", SmallInteger, nullable=False),
    Column("state", String(20), nullable=False),
    Column("url", Text, nullable=False),
    Column("target", Text),
    Column("options", Text, nullable=False),
    Column("header_names", Text),
    Column("page_limit", Integer),
    Column("open", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("pages", Integer, nullable=False),
    Column("page_counts", Text),
    Column("held", Integer, nullable=False),
    Column("skipped", Integer, nullable=False, server_default=text("0")),
    Column("sitemaps", Integer, nullable=False, server_default=text("0")),
    Column("sitemap_files", Integer, nullable=False, server_default=text("0")),
    Column("base", Text),
    Column("warning", Text),
    Column("credits", Integer, nullable=False),
    Column("key_id", String(36)),
    Column("page_price", Integer),
    Column("reserved", BigInteger, nullable=False, server_default=text("0")),
    Column("hook_events", Text),
    Column("deliveries", Integer, nullable=False, server_default=text("0")),
    Column("parent_id", String(36)),
    Column("source_job_id", String(36)),
    Column("base_job_id", String(36)),
    Column("error", Text),
    Column("paused_at", Double),
    Column("revision", Integer, nullable=False, server_default=text("0")),
    Column("copying", Text),
    Column("secrets", String(40)),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("completed_at", Double),
    Column("retention_s", Double, nullable=False, server_default=text("86400")),
    Column("expires_at", Double, nullable=False),
    Column("stored", BigInteger, nullable=False, server_default=text("0")),
    Index("ix_job_number", "number", unique=True),
    # A team may have a hundred thousand ended jobs and a few active ones.
    Index("ix_job_state", "state", "team_id", "created_at"),
    Index("ix_job_active", "kind", "state"),
    Index("ix_job_team_id", "team_id", "created_at"),
    Index("ix_job_kind", "team_id", "kind", "created_at"),
    _partial("parent_id IS NOT NULL", "ix_job_parent_id", "parent_id"),
    Index("ix_job_expires_at", "expires_at"),
    # For lists of a team's jobs. Steps of model jobs are not listed.
    _partial(
        "parent_id IS NULL",
        "ix_job_listed",
        "team_id",
        "kind",
        "state",
        "created_at",
        "id",
    ),
)

#: Further columns of model jobs and checks. ``memory`` is JSON with the findings of
#: the steps so far, and ``steps`` counts how often it was stored. ``result`` is the compressed
#: JSON of the result, which may be preliminary.
operation = Table(
    "operation",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("memory", Text, nullable=False),
    Column("result", LargeBinary),
    Column("tokens", BigInteger),
    Column("steps", Integer, nullable=False, server_default=text("0")),
)

#: Encrypted secrets of active jobs, see
#: :mod:`scraper_service.storage.job_secrets`. ``part`` is ``options``, ``webhook``, or
#: a name in the options of frontier rows.
secret = Table(
    "secret",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("part", String(40), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: All URLs of a job, each in exactly one state
#: (:class:`scraper_service.storage.job_records.RowState`). ``key`` is the number of a
#: batch entry, or the hash of the canonical URL in a crawl. ``token`` is the fencing token
#: of the lease. ``kind`` is a
#: :class:`scraper_service.storage.job_records.UrlKind`, ``found_on`` the row of the page
#: with the link. ``code`` and ``error`` are the reason of a failure or refusal, ``status`` is
#: the status of the site for a failure.
frontier = Table(
    "frontier",
    metadata,
    Column("id", _Serial, primary_key=True),
    # By their size: PostgreSQL pads a value to a multiple of it.
    Column("job_number", ForeignKey("job.number"), nullable=False),
    Column("key", BigInteger, nullable=False),
    Column("found_on", BigInteger),
    Column("ended_at", Double),
    Column("depth", Integer, nullable=False),
    Column("token", Integer, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("state", SmallInteger, nullable=False),
    Column("kind", SmallInteger, nullable=False, server_default=text("0")),
    Column("status", SmallInteger),
    Column("owner", String(36)),
    Column("page_id", String(36)),
    Column("url", Text, nullable=False),
    Column("lastmod", String(40)),
    Column("code", String(60)),
    Column("error", Text),
    Column("options", Text),
    # Kinds of ``metadata.losses`` of a delivered page, in the form " formula video ".
    Column("losses", Text),
    # Of a page that a crawl with ``since`` does not deliver: hashes of the texts of its
    # earlier page, as JSON.
    Column("text_hashes", Text),
    UniqueConstraint("job_number", "key", name="uq_frontier_job_number"),
    Index("ix_frontier_state", "job_number", "state", "id"),
    _partial("state = 2", "ix_frontier_leased", "owner", "id"),
    # Partial: fetched pages rarely have a code, so the index costs little.
    _partial(
        "code IS NOT NULL", "ix_frontier_code", "job_number", "state", "code", "id"
    ),
    _partial("losses IS NOT NULL", "ix_frontier_losses", "job_number", "state", "id"),
    _partial("kind = 1", "ix_frontier_sitemap", "job_number", "state"),
)

#: Links that are only listed, see :mod:`scraper_service.storage.frontier.refused_links`. The
#: page of the row ``found_on`` has links to ``urls`` URLs that were refused for the reason
#: ``code``. ``body`` is compressed JSON with these URLs and the details.
refused_list = Table(
    "refused_list",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("job_number", ForeignKey("job.number"), nullable=False),
    Column("found_on", BigInteger),
    Column("urls", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("code", String(60), nullable=False),
    Column("body", LargeBinary, nullable=False),
    # With all that counts read.
    Index("ix_refused_list_job_number", "job_number", "id", "code", "urls"),
)

#: The keys of the URLs in :data:`refused_list`.
refused_key = Table(
    "refused_key",
    metadata,
    Column("job_number", ForeignKey("job.number"), primary_key=True),
    Column("key", BigInteger, primary_key=True),
    Column("list_id", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

#: Delivered pages in order. ``body`` is the compressed JSON, ``size`` the number of
#: uncompressed bytes.
page = Table(
    "page",
    metadata,
    Column("job_number", ForeignKey("job.number"), nullable=False),
    Column("frontier_id", BigInteger, nullable=False, unique=True),
    Column("seq", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("id", String(36), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("whole", LargeBinary, nullable=True),
    UniqueConstraint("job_number", "seq", name="uq_page_job_number"),
)

#: The responses that pages of jobs were made of, see
#: :mod:`scraper_service.content.stored_pages`. ``size`` is the number of bytes of the
#: body as received. ``digest`` is the hash of a body in object storage, which has ``length``
#: bytes there; then ``body`` is empty.
page_source = Table(
    "page_source",
    metadata,
    Column("job_number", ForeignKey("job.number"), nullable=False),
    Column("size", Integer, nullable=False),
    Column("page_id", String(36), primary_key=True),
    Column("facts", Text, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("length", Integer),
    Column("digest", LargeBinary),
    Index("ix_page_source_job_number", "job_number"),
    _partial("digest IS NOT NULL", "ix_page_source_digest", "digest"),
)

#: Pages of single scrapes. ``replay`` has what a browser session needs to open the page
#: again: JSON with the secrets in it encrypted. None if it cannot be opened again.
scrape = Table(
    "scrape",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("replay", LargeBinary),
    Index("ix_scrape_expires_at", "expires_at"),
)

#: The page cache: raw responses. ``facts`` is JSON with all but the body.
source = Table(
    "source",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("key", String(32), primary_key=True),
    Column("fetched_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("facts", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("ix_source_expires_at", "expires_at"),
)

#: The last snapshot of each tracked page. ``version`` counts snapshots, 0 while the first
#: one is being stored. ``body`` is a
#: :class:`scraper_service.content.formats.change_tracking.Comparison`.
snapshot = Table(
    "snapshot",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("key", String(32), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("ix_snapshot_expires_at", "expires_at"),
)

#: Events of a job in order: ``started``, ``page``, ``paused``, ``resumed``, ``updated``,
#: ``completed``, ``failed`` and ``cancelled``. A ``page`` event has the delivered page or
#: the failed URL. ``detail`` is JSON of a
#: :class:`scraper_service.storage.job_records.JobChange`, or the error of a failed page
#: that was fetched again later.
event = Table(
    "event",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("job_number", ForeignKey("job.number"), nullable=False),
    Column("at", Double, nullable=False),
    Column("row_id", BigInteger),
    Column("kind", String(20), nullable=False),
    Column("page_id", String(36)),
    Column("detail", Text),
    Index("ix_event_job_number", "job_number", "id"),
)

#: Webhooks of jobs. ``config`` is JSON with the names of headers, without their values.
#: ``receiver`` is host and port. ``due_at`` is the time of the next delivery or None,
#: ``until`` the end of the lease, ``token`` its fencing token.
webhook = Table(
    "webhook",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("receiver", String(260), nullable=False),
    Column("config", Text, nullable=False),
    Column("due_at", Double),
    Column("until", Double, nullable=False, server_default=text("0")),
    Column("token", Integer, nullable=False, server_default=text("0")),
    Index("ix_webhook_due_at", "due_at"),
)

#: Webhook deliveries. ``seq`` counts the deliveries of a job from 1, ``row_id`` is the URL
#: of a page event, whose body is the stored page, and ``detail`` that of
#: :data:`event`. ``due_at`` is 0 before the first attempt.
#: ``failures`` counts the attempts since the last replay, ``log`` has all attempts.
#: ``response`` is the start of the last response's body, None without a response.
delivery = Table(
    "delivery",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(20), nullable=False),
    Column("row_id", BigInteger),
    Column("at", Double, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("due_at", Double, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("log", Text, nullable=False, server_default=text("'[]'")),
    Column("detail", Text),
    Column("response", Text),
    Index("ix_delivery_due", "job_id", "state", "due_at", "seq"),
)

#: Charged credits, one row per page or call. ``key_id`` is the API key of the call, ``day``
#: the days since 1970.
ledger = Table(
    "ledger",
    metadata,
    Column("page_id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("job_id", String(36)),
    Column("key_id", String(36)),
    Column("credits", Integer, nullable=False),
    Column("day", Integer, nullable=False, server_default=text("0")),
    Column("at", Double, nullable=False),
    Index("ix_ledger_team_id", "team_id", "at"),
)

#: Credits taken from a team that may return. ``id`` is the call, ``owner`` its process.
#: Holds without an owner are free.
hold = Table(
    "hold",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("credits", BigInteger, nullable=False),
    Column("owner", String(36)),
    Index("ix_hold_team_id", "team_id"),
    # Debts, of which each request for credits reads the sum.
    _partial("credits < 0", "ix_hold_debt", "team_id"),
)

#: Rate limits by team and mode: ``used`` calls in the window that ends at ``until``.
rate = Table(
    "rate",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("mode", String(20), primary_key=True),
    Column("used", Integer, nullable=False),
    Column("until", Double, nullable=False),
)

#: Calls of the last day, and single calls as long as their pages are stored. ``target`` is
#: a URL or query, None with zero data retention. ``error`` is the reason of a failed call,
#: ``origin`` the name of the client.
activity = Table(
    "activity",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("endpoint", String(20), nullable=False),
    Column("version", SmallInteger, nullable=False),
    Column("target", Text),
    Column("error", Text),
    Column("origin", Text),
    Column("at", Double, nullable=False),
    Column("expires_at", Double, nullable=False, server_default=text("0")),
    Index("ix_activity_team_id", "team_id", "at", "id"),
    Index("ix_activity_endpoint", "team_id", "endpoint", "at", "id"),
    Index("ix_activity_expires_at", "expires_at"),
)

#: Bytes that teams have stored, or deleted (negative), see
#: :mod:`scraper_service.storage.accounts.disk_use`. The use of a team is the sum of its rows.
disk_use = Table(
    "disk_use",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Index("ix_disk_use_team_id", "team_id"),
)

#: The audit log. ``team_id`` is the team that acted or was changed, ``peer`` the address of
#: the caller or a word for the operator, ``target`` what the act was about, ``detail`` JSON.
#: It has no foreign keys: entries outlive keys and jobs.
audit = Table(
    "audit",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("at", Double, nullable=False),
    Column("team_id", String(36)),
    Column("key_id", String(36)),
    Column("key_name", String(200)),
    Column("peer", String(80), nullable=False),
    Column("action", String(40), nullable=False),
    Column("target", Text),
    Column("detail", Text, nullable=False),
    Column("result", Text, nullable=False),
    Index("ix_audit_at", "at", "id"),
    Index("ix_audit_team_id", "team_id", "at", "id"),
)

#: Monitors of teams. ``cron`` and ``timezone`` are the schedule, ``next_at`` the next run
#: time, None while the monitor is paused. ``definition`` is JSON of a
#: :class:`scraper_service.storage.monitors.monitors.Definition`; with secrets it is None, and
#: ``sealed`` has it encrypted. ``estimate`` is the price of a check, ``reserve`` the
#: credits that it takes before its start. ``check_id`` is the latest check that was queued, ``summary`` JSON with the counts of the last one that
#: ended. ``failures`` counts the checks in a row without a good page.
monitor = Table(
    "monitor",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("key_id", String(36)),
    Column("name", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("cron", Text, nullable=False),
    Column("timezone", String(64), nullable=False),
    Column("goal", Text),
    Column("judge", SmallInteger, nullable=False),
    Column("definition", Text),
    Column("sealed", LargeBinary),
    Column("notification", Text),
    Column("retention_days", Integer, nullable=False),
    Column("estimate", BigInteger, nullable=False),
    Column("reserve", BigInteger, nullable=False),
    Column("next_at", Double),
    Column("last_at", Double),
    Column("check_id", String(36)),
    Column("summary", Text),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("muted_until", Double),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Index("ix_monitor_team_id", "team_id", "created_at", "id"),
    Index("ix_monitor_next_at", "next_at"),
)

#: Checks of monitors. Each is a job of the kind ``monitor_check``. ``definition`` and
#: ``sealed`` are those of the monitor at the start, None after the end. ``counts`` is JSON with
#: the number of pages by state, ``results`` JSON by target, ``pages`` the number of rows in
#: :data:`monitor_page`.
monitor_check = Table(
    "monitor_check",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("monitor_id", String(36), nullable=False),
    Column("status", String(20), nullable=False),
    Column("trigger", String(20), nullable=False),
    Column("definition", Text),
    Column("sealed", LargeBinary),
    Column("counts", Text, nullable=False),
    Column("results", Text, nullable=False),
    Column("pages", Integer, nullable=False, server_default=text("0")),
    Column("estimate", BigInteger),
    Column("credits", BigInteger),
    Column("error", Text),
    Column("scheduled_for", Double),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Index("ix_monitor_check_status", "status"),
    Index("ix_monitor_check_monitor_id", "monitor_id", "created_at", "job_id"),
)

#: Pages of checks in order. ``body`` is the compressed JSON of the page as callers read it.
monitor_page = Table(
    "monitor_page",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("status", String(10), nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("ix_monitor_page_status", "job_id", "status", "seq"),
)

#: Messages about checks to channels, and mail
#: (:data:`scraper_service.storage.monitors.messages.MAIL`). ``due_at`` is the time of the next
#: attempt, None if there is none; ``tried_at`` that of the last one. ``failed`` is 1 for a
#: message that was given up.
monitor_message = Table(
    "monitor_message",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("channel", String(64), primary_key=True),
    Column("due_at", Double),
    Column("tried_at", Double),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("failed", SmallInteger, nullable=False, server_default=text("0")),
    Index("ix_monitor_message_due_at", "due_at"),
    Index("ix_monitor_message_channel", "channel", "tried_at"),
)

#: The last snapshot of each URL of a monitor's target. ``key`` is the hash of the URL,
#: ``scrape_id`` the page that it was made of, ``check_id`` the last check that found the
#: URL. ``body`` is what the next page is compared with, None for a result of a search.
monitor_snapshot = Table(
    "monitor_snapshot",
    metadata,
    Column("monitor_id", String(36), primary_key=True),
    Column("target_id", String(36), primary_key=True),
    Column("key", String(32), primary_key=True),
    Column("url", Text, nullable=False),
    Column("scrape_id", String(36)),
    Column("check_id", String(36), nullable=False),
    Column("at", Double, nullable=False),
    Column("body", LargeBinary),
)

#: Processes with leases, which end at ``until``. ``takes`` has names separated by spaces;
#: see :mod:`scraper_service.storage.frontier.leases`.
worker = Table(
    "worker",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("until", Double, nullable=False),
    Column("kind", String(20)),
    Column("host", String(255)),
    Column("pid", Integer),
    Column("takes", String(40)),
    Column("jobs", Integer),
    Column("drains", Boolean),
    Column("started_at", Double),
)

#: Facts about the installation by name; ``secret`` is what stands for its secret.
installation = Table(
    "installation",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

#: Hosts with one page at a time or a slowed pace. Times are those of the database. ``next_at`` is the
#: next start, ``held_by`` the process with the current page. ``opens_at`` is the end of
#: a pause, ``at_once`` the largest number of requests in flight (None for a host that was
#: never slowed), ``gap_s`` the pause between two starts, and ``start_at`` the next free
#: start.
host = Table(
    "host",
    metadata,
    Column("host", String(260), primary_key=True),
    Column("next_at", Double, nullable=False, server_default=text("0")),
    Column("held_by", String(36)),
    Column("opens_at", Double, nullable=False, server_default=text("0")),
    Column("at_once", SmallInteger),
    Column("gap_s", Double, nullable=False, server_default=text("0")),
    Column("start_at", Double, nullable=False, server_default=text("0")),
    Column("updated_at", Double, nullable=False),
    Index("ix_host_updated_at", "updated_at"),
)

#: The limit of a host or team (``kind``, ``name``), by process: what it is ``granted``, what
#: it wants, and requests or pages in use. ``since`` is the start of its wait for more. A
#: process with a row of the name ``*`` asks for all that it has in flight.
permit = Table(
    "permit",
    metadata,
    Column("kind", String(4), primary_key=True),
    Column("name", String(260), primary_key=True),
    Column("owner", String(36), primary_key=True),
    Column("granted", Integer, nullable=False),
    Column("wanted", Integer, nullable=False),
    Column("in_use", Integer, nullable=False),
    Column("since", Double),
    Index("ix_permit_owner", "owner"),
)

#: Requests of a job by host, over all processes. ``facts`` is JSON of a
#: :class:`scraper_service.storage.frontier.job_counts.HostCounts`.
job_host = Table(
    "job_host",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("host", String(260), primary_key=True),
    Column("requests", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("wait_s", Double, nullable=False),
    Column("peak_rate", Integer, nullable=False),
    Column("peak_in_flight", Integer, nullable=False),
    Column("facts", Text, nullable=False),
)

#: A job's robots.txt files, None before the fetch, and the number of refused URLs.
job_robots = Table(
    "job_robots",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("url", String(300), primary_key=True),
    Column("state", String(20)),
    Column("detail", Text),
    Column("agent", Text),
    Column("crawl_delay_s", Double),
    Column("refused", Integer, nullable=False, server_default=text("0")),
)

#: Scrapy stats of a job's crawlers that are numbers, summed over all processes.
job_stat = Table(
    "job_stat",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("value", Double, nullable=False),
)

#: Texts of delivered pages for the search of duplicates, see
#: :class:`scraper_service.storage.frontier.job_counts.DeliveredText`. A block has 8 bytes.
page_text = Table(
    "page_text",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("job_number", ForeignKey("job.number"), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("host", String(260), nullable=False),
    Column("url", Text, nullable=False),
    Column("blocks", LargeBinary, nullable=False),
    Index("ix_page_text_job_number", "job_number", "id"),
)

#: Used idempotency keys.
idempotency = Table(
    "idempotency",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("key", String(36), primary_key=True),
    Column("expires_at", Double, nullable=False),
)

#: The leases of processes on jobs, in a
#: :class:`scraper_service.storage.job_records.RunState`; see
#: :mod:`scraper_service.storage.jobs.runs`. ``owner`` is the process: until its start that of
#: the service that requested it. ``node`` is the URL of its scrapyd node, None without one;
#: then ``id`` is also the id of the node's own job. ``progress`` is the progress of the job at
#: the start, ``reason`` the reason of the end. ``urls`` were taken over from a dead process.
run = Table(
    "run",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("job_id", ForeignKey("job.id"), nullable=False),
    Column("owner", String(36), nullable=False),
    Column("node", String(300)),
    Column("state", SmallInteger, nullable=False),
    Column("progress", BigInteger, nullable=False),
    Column("urls", Integer),
    Column("reason", Text),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Index("ix_run_job_id", "job_id", "created_at"),
    _partial("state < 2", "ix_run_live", "job_id", "owner"),
)

#: Uploads that wait to be parsed. ``token`` is the SHA-256 hash of the token in the URL for
#: the bytes, ``name`` and ``kind`` the file's name and content type. ``file`` is the name of
#: the bytes in ``DATA_DIR/uploads``, None before they were sent, and ``size`` their number.
upload = Table(
    "upload",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("token", String(64), nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("file", String(36)),
    Column("size", BigInteger, nullable=False, server_default=text("0")),
    Column("expires_at", Double, nullable=False),
    Index("ix_upload_team_id", "team_id", "expires_at"),
    Index("ix_upload_expires_at", "expires_at"),
)

#: Files in ``DATA_DIR/artefacts`` by holder: as long as the job is stored, else until
#: ``expires_at``. ``size`` are the bytes that count for ``team_id``, or for the job.
artefact = Table(
    "artefact",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("holder", String(80), primary_key=True),
    Column("job_id", String(36)),
    Column("expires_at", Double),
    Column("team_id", String(36)),
    Column("size", BigInteger, nullable=False, server_default=text("0")),
    Index("ix_artefact_expires_at", "expires_at"),
    Index("ix_artefact_job_id", "job_id"),
    Index("ix_artefact_holder", "holder"),
)

#: Cookies and local storage of a team by name. ``body`` is encrypted, ``cookies`` is the
#: number of cookies.
session = Table(
    "session",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("cookies", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
)

#: Sessions of the browser, running and ended. ``owner`` is the process that has the browser,
#: ``profile`` the name that the session writes at its end, ``is_ending`` is 1 if another
#: process wants its end. Times are those of the database, ``expires_at`` is the end of its
#: time to live. ``credits`` is None until its end.
browser_session = Table(
    "browser_session",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("scrape_id", String(36)),
    Column("owner", String(36), nullable=False),
    Column("profile", String(128)),
    Column("has_view", SmallInteger, nullable=False),
    Column("is_ending", SmallInteger, nullable=False, server_default=text("0")),
    Column("created_at", Double, nullable=False),
    Column("last_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("credits", BigInteger),
    Index("ix_browser_session_team_id", "team_id", "created_at"),
    Index("ix_browser_session_scrape_id", "scrape_id"),
    Index("ix_browser_session_ended_at", "ended_at"),
)

#: Tokens used by an account, per day since 1970, or over all days with ``day`` 0.
model_use = Table(
    "model_use",
    metadata,
    Column("account", String(80), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("updated_at", Double, nullable=False),
    Index("ix_model_use_updated_at", "updated_at"),
)

#: Pages of the page index. ``key`` is the number of the URL, ``language`` that of the
#: stems, ``date`` the time of publication, else of the fetch. ``facts`` is JSON, ``text`` is
#: compressed. Another fetch of a page is a new row, so that new rows have higher ids.
search_page = Table(
    "search_page",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("key", String(32), nullable=False),
    Column("language", String(2), nullable=False),
    Column("date", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("url", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("text", LargeBinary, nullable=False),
    Index("ix_search_page_key", "team_id", "key", unique=True),
    Index("ix_search_page_language", "team_id", "language"),
    Index("ix_search_page_expires_at", "expires_at"),
)


def _after(table: FromClause, statement: str, dialect: str = "postgresql") -> None:
    ddl = DDL(statement)  # type: ignore[no-untyped-call]
    listen(table, "after_create", ddl.execute_if(dialect=dialect))


#: The words of :data:`search_page`, in a table ``search_index`` of the database's own
#: full-text search. ``rowid`` is the id of the page, whose deletion deletes its words.
SEARCH_INDEX = {
    "sqlite": (
        """CREATE VIRTUAL TABLE search_index USING fts5(
            title, about, body, marks, tokenize = "ascii tokenchars '.-_:'")""",
        """CREATE TRIGGER search_page_deleted AFTER DELETE ON search_page BEGIN
            DELETE FROM search_index WHERE rowid = old.id; END""",
    ),
    "postgresql": (
        """CREATE TABLE search_index (
            rowid bigint PRIMARY KEY REFERENCES search_page (id) ON DELETE CASCADE,
            terms tsvector NOT NULL)""",
        # Plans then never expect many matches: a scan of all rows would be slow.
        "ALTER TABLE search_index ALTER terms SET STATISTICS 0",
        # Each search reads the whole list of pending rows. A short list makes writes slow.
        """CREATE INDEX ix_search_index_terms ON search_index USING gin (terms)
            WITH (gin_pending_list_limit = 1024)""",
    ),
}
for _dialect, _statements in SEARCH_INDEX.items():
    for _statement in _statements:
        _after(search_page, _statement, _dialect)

#: Values that are compressed already, which PostgreSQL would try to compress again.
COMPRESSED = (
    *(page.c.body, page.c.whole, page_source.c.head, page_source.c.body),
    *(refused_list.c.body, scrape.c.body, source.c.body, snapshot.c.body),
    *(operation.c.result, monitor_page.c.body, search_page.c.text),
)
for _column in COMPRESSED:
    _name = f"{_column.table.name} ALTER {_column.name}"
    _after(_column.table, f"ALTER TABLE {_name} SET STORAGE EXTERNAL")

#: How PostgreSQL stores tables whose rows change often. Free space on a page (``fillfactor``)
#: lets a changed row stay on it, without new entries in the indexes. Without frequent vacuums,
#: a claim would step over the entries of all URLs that were pending before.
STORAGE = {
    "frontier": "autovacuum_vacuum_scale_factor = 0.02,"
    " autovacuum_analyze_scale_factor = 0.02",
    "job": "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02",
    **dict.fromkeys(("host", "permit", "rate", "team", "worker"), "fillfactor = 50"),
}
for _table, _options in STORAGE.items():
    _after(metadata.tables[_table], f"ALTER TABLE {_table} SET ({_options})")
