"""The tables of the job database; every change of them is a migration beside."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: Whom jobs, credits and pages belong to. ``credits`` is what may still be spent, of
#: ``plan_credits``; ``concurrency`` how many pages may be under way at a time; ``rates``
#: are calls per minute by mode, as JSON. None is unlimited, or what settings say.
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
)

#: Keys, hashed: ``hash`` is HMAC-SHA256 in hex, ``hint`` the last four characters.
#: ``source`` is ``command`` or ``settings``.
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
)

# SQLite numbers rows by itself only where the type is INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")

#: One crawl, batch or operation of several steps. The counts change only in the
#: transaction that changes rows of its frontier; see
#: :class:`scraper_service.storage.job_records.Job`. ``parent_id`` is the operation whose step it
#: is, None for what a caller started. ``hook_events`` are those
#: that its webhook asked for, None without one; ``deliveries`` counts its events so far.
#: ``reserved`` credits were taken from the team and are not charged yet; ``page_price``
#: is what each of its pages may count on, None where the team is unlimited.
job = Table(
    "job",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("version", SmallInteger, nullable=False),
    Column("state", String(20), nullable=False),
    Column("url", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("page_limit", Integer),
    Column("open", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("pages", Integer, nullable=False),
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
    Column("hook_events", String(60)),
    Column("deliveries", Integer, nullable=False, server_default=text("0")),
    Column("parent_id", String(36)),
    Column("error", Text),
    Column("created_at", Double, nullable=False),
    Column("completed_at", Double),
    Column("expires_at", Double, nullable=False),
    Index("ix_job_state", "state"),
    Index("ix_job_team_id", "team_id", "created_at"),
    Index("ix_job_expires_at", "expires_at"),
)

#: What a job has beside that is an operation of several steps. ``memory`` is JSON: what
#: the steps so far have found, for who goes on with them. ``result`` is JSON,
#: compressed: what its caller gets, of one that goes on what there is of it. ``owner``
#: works on it while it is among the workers; ``token`` counts who did, ``attempts``
#: those since the last step.
operation = Table(
    "operation",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("memory", Text, nullable=False),
    Column("result", LargeBinary),
    Column("tokens", BigInteger),
    Column("owner", String(36)),
    Column("token", Integer, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
)

#: What callers entrust to a job that goes on, encrypted, see
#: :mod:`scraper_service.storage.job_secrets`. ``part`` is ``options``, ``webhook``, or what
#: the options of some rows of its frontier call it.
secret = Table(
    "secret",
    metadata,
    Column("job_id", ForeignKey("job.id"), primary_key=True),
    Column("part", String(40), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: Every address a job has seen, in exactly one state
#: (:class:`scraper_service.storage.job_records.RowState`). ``key`` is the number of the entry in
#: a batch, the hash of the normalised address in a crawl. ``token`` counts leases: a
#: late write of an earlier owner finds another one. ``kind`` is one of
#: :class:`scraper_service.storage.job_records.Kind`, ``found_on`` the row of the page that has
#: the address; ``code`` and ``error`` say why one failed or was refused.
frontier = Table(
    "frontier",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("job_id", ForeignKey("job.id"), nullable=False),
    Column("kind", SmallInteger, nullable=False, server_default=text("0")),
    Column("key", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("options", Text),
    Column("found_on", BigInteger),
    Column("lastmod", String(40)),
    Column("state", SmallInteger, nullable=False),
    Column("token", Integer, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("owner", String(36)),
    Column("page_id", String(36)),
    Column("code", String(60)),
    Column("error", Text),
    Column("ended_at", Double),
    UniqueConstraint("job_id", "key", name="uq_frontier_job_id"),
    Index("ix_frontier_state", "job_id", "state", "id"),
    Index(
        "ix_frontier_leased",
        "owner",
        "id",
        sqlite_where=text("state = 2"),
        postgresql_where=text("state = 2"),
    ),
    # Few of the pages that are fetched have a code: they cost nothing.
    Index(
        "ix_frontier_code",
        "job_id",
        "state",
        "code",
        "id",
        sqlite_where=text("code IS NOT NULL"),
        postgresql_where=text("code IS NOT NULL"),
    ),
    Index(
        "ix_frontier_sitemap",
        "job_id",
        "state",
        sqlite_where=text("kind = 1"),
        postgresql_where=text("kind = 1"),
    ),
)

#: The page feed: delivered pages in order. ``body`` is the page's JSON, compressed;
#: ``size`` its bytes uncompressed.
page = Table(
    "page",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("job_id", ForeignKey("job.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("frontier_id", BigInteger, nullable=False, unique=True),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("job_id", "seq", name="uq_page_job_id"),
)

#: Pages of single scrapes, for a day.
scrape = Table(
    "scrape",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("expires_at", Double, nullable=False),
    Index("ix_scrape_expires_at", "expires_at"),
)

#: Raw sources of pages for later scrapes: ``facts`` are what else the answer had.
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

#: What a tracked page was like when it was last scraped, by address and tag. ``version``
#: counts its scrapes, 0 while the first one is being stored; ``body`` is that of
#: :class:`scraper_service.content.change_tracking.Comparison`.
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

#: What happened to a job, in order: ``started``, ``page``, ``completed``, ``failed``,
#: ``cancelled``; written in the transaction of what happened. A ``page`` has the page
#: that was delivered, or the address that failed.
event = Table(
    "event",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("job_id", ForeignKey("job.id"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("page_id", String(36)),
    Column("row_id", BigInteger),
    Column("at", Double, nullable=False),
    Index("ix_event_job_id", "job_id", "id"),
)

#: Where the events of a job are sent. ``config`` is JSON, with headers but without their
#: values; ``receiver`` is host and port of its address. Something is due at ``due_at``, None for nothing; who holds the lease until
#: ``until`` sends it, and ``token`` counts leases.
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

#: The outbox: events that a receiver asked for, written in the transaction of what
#: happened. ``seq`` counts those of a job from 1, ``row_id`` is the address that a page
#: event is about: its body comes from the stored page. ``due_at`` is 0 before the first
#: attempt. ``failures`` are those of this series, ``log`` what came of each attempt.
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
    Index("ix_delivery_due", "job_id", "state", "due_at", "seq"),
)

#: Credits, charged once per page or call; ``key_id`` is whose call it was, ``day`` the
#: number of days since 1970.
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

#: Credits that were taken from a team and go back to it: when the call ``id`` ends that
#: the process ``owner`` works on, or, without owner, at once.
hold = Table(
    "hold",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("credits", BigInteger, nullable=False),
    Column("owner", String(36)),
    Index("ix_hold_team_id", "team_id"),
)

#: Calls of a team by mode of the rate limits, ``used`` in the minute before ``until``.
rate = Table(
    "rate",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("mode", String(20), primary_key=True),
    Column("used", Integer, nullable=False),
    Column("until", Double, nullable=False),
)

#: How many pages of a team a process may have under way (``granted``), would like to
#: have, and has. ``since`` is when it began to want more than it got.
share = Table(
    "share",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("owner", String(36), primary_key=True),
    Column("granted", Integer, nullable=False),
    Column("wanted", Integer, nullable=False),
    Column("in_use", Integer, nullable=False),
    Column("since", Double),
)

#: What teams called in the last day; ``target`` is an address, None of calls that keep
#: nothing.
activity = Table(
    "activity",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("endpoint", String(20), nullable=False),
    Column("version", SmallInteger, nullable=False),
    Column("target", Text),
    Column("at", Double, nullable=False),
    Index("ix_activity_team_id", "team_id", "at", "id"),
    Index("ix_activity_at", "at"),
)

#: Processes that hold leases: theirs last until ``until``.
worker = Table(
    "worker",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("until", Double, nullable=False),
)

#: Hosts that are asked page by page, or were in trouble; times are the database's.
#: ``next_at`` is when the next turn may begin, ``held_by`` the process that has it now.
#: ``opens_at`` ends a pause for all requests, ``at_once`` may be in flight, ``gap_s``
#: lie between two starts, in all processes together; ``start_at`` is the next one that
#: is free. ``at_once`` is None before any trouble.
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

#: What a job asked of a host, in all processes together; ``facts`` is JSON. See
#: :class:`scraper_service.storage.politeness.tally.HostCounts`.
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

#: What a job found at the address of a robots.txt, None before it asked for it, and how
#: many addresses of the job it refuses.
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

#: Texts of delivered pages, if the job looks for what repeats; see
#: :class:`scraper_service.storage.frontier.duplicates.PageText`. ``blocks`` are 8 bytes each.
page_text = Table(
    "page_text",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("job_id", ForeignKey("job.id"), nullable=False),
    Column("host", String(260), nullable=False),
    Column("url", Text, nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("blocks", LargeBinary, nullable=False),
    Index("ix_page_text_job_id", "job_id", "id"),
)

#: Idempotency keys that were used.
idempotency = Table(
    "idempotency",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("key", String(36), primary_key=True),
    Column("expires_at", Double, nullable=False),
)

#: Processes on nodes that were asked to run a job, each in one of the states of
#: :class:`scraper_service.storage.runs.RunState`. A job has at most one that has not ended
#: per ``slot``, counted from 0. ``id`` is the process among the workers too, and the
#: node's own id of it; ``node`` is its address, ``asked_by`` the service process that
#: asked. ``progress`` is how far the job was then, ``reason`` why the run ended.
run = Table(
    "run",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("job_id", ForeignKey("job.id"), nullable=False),
    Column("slot", SmallInteger, nullable=False),
    Column("node", String(300), nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("asked_by", String(36), nullable=False),
    Column("progress", BigInteger, nullable=False),
    Column("reason", Text),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Index("ix_run_job_id", "job_id", "created_at"),
    Index(
        "uq_run_slot",
        "job_id",
        "slot",
        unique=True,
        sqlite_where=text("state < 3"),
        postgresql_where=text("state < 3"),
    ),
)

#: Who needs a file of ``DATA_DIR/artefacts``, a job for as long as it is kept, others
#: until ``expires_at``.
artefact = Table(
    "artefact",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("holder", String(80), primary_key=True),
    Column("job_id", String(36)),
    Column("expires_at", Double),
    Index("ix_artefact_expires_at", "expires_at"),
    Index("ix_artefact_job_id", "job_id"),
)

#: Cookies and local storage of a team by name; ``body`` is encrypted, ``cookies`` counts
#: them.
session = Table(
    "session",
    metadata,
    Column("team_id", ForeignKey("team.id"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("cookies", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
)

#: Tokens that a language model has taken for a key, a team or a job: in one day since
#: 1970, or in all where ``day`` is 0.
model_use = Table(
    "model_use",
    metadata,
    Column("account", String(80), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("updated_at", Double, nullable=False),
    Index("ix_model_use_updated_at", "updated_at"),
)

#: Pages that searches of a team find, by the number of their address (``key``).
#: ``facts`` is JSON, ``text`` compressed; ``terms`` are those of
#: :mod:`scraper_service.content.text.search_entry` until the page is in a segment. A page
#: that was fetched again is a new row.
search_page = Table(
    "search_page",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("key", String(32), nullable=False),
    Column("url", Text, nullable=False),
    Column("fetched_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("facts", Text, nullable=False),
    Column("text", LargeBinary, nullable=False),
    Column("terms", LargeBinary),
    Index("ix_search_page_key", "team_id", "key"),
    Index("ix_search_page_expires_at", "expires_at"),
    Index(
        "ix_search_page_waiting",
        "team_id",
        "id",
        sqlite_where=text("terms IS NOT NULL"),
        postgresql_where=text("terms IS NOT NULL"),
    ),
)

#: Pages whose terms are in lists together. ``pages`` are their ids (8 bytes) and dates
#: (4 bytes, seconds since 1970), side by side; ``languages`` are codes with commas,
#: ``bits`` tells how the lists are cut. One of the states of
#: :class:`scraper_service.storage.job_records.SegmentState`; ``created_at`` is when something was
#: added to it last.
search_segment = Table(
    "search_segment",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("team_id", ForeignKey("team.id"), nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("bits", SmallInteger, nullable=False),
    Column("languages", Text, nullable=False),
    Column("pages", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Index("ix_search_segment_team_id", "team_id", "state"),
    Index("ix_search_segment_expires_at", "state", "expires_at"),
)

#: Pieces of the lists of a segment (:mod:`scraper_service.storage.page_index.postings`).
search_list = Table(
    "search_list",
    metadata,
    Column("segment_id", ForeignKey("search_segment.id"), primary_key=True),
    Column("piece", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)
