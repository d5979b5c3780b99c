"""The first released layout: every table of :mod:`scraper_service.storage.schema`."""

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = None

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
        "ALTER TABLE search_index ALTER terms SET STATISTICS 0",
        """CREATE INDEX ix_search_index_terms ON search_index USING gin (terms)
            WITH (gin_pending_list_limit = 1024)""",
    ),
}


def upgrade() -> None:  # noqa: PLR0915   # made by Alembic
    op.create_table(
        "artefact",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("holder", sa.String(length=80), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=True),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("name", "holder", name="pk_artefact"),
    )
    op.create_index("ix_artefact_expires_at", "artefact", ["expires_at"], unique=False)
    op.create_index("ix_artefact_job_id", "artefact", ["job_id"], unique=False)
    op.create_table(
        "host",
        sa.Column("host", sa.String(length=260), nullable=False),
        sa.Column("next_at", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("held_by", sa.String(length=36), nullable=True),
        sa.Column("opens_at", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("at_once", sa.SmallInteger(), nullable=True),
        sa.Column("gap_s", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("start_at", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("host", name="pk_host"),
    )
    op.create_index("ix_host_updated_at", "host", ["updated_at"], unique=False)
    op.create_table(
        "model_use",
        sa.Column("account", sa.String(length=80), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("account", "day", name="pk_model_use"),
    )
    op.create_index(
        "ix_model_use_updated_at", "model_use", ["updated_at"], unique=False
    )
    op.create_table(
        "team",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=True),
        sa.Column("plan_credits", sa.BigInteger(), nullable=True),
        sa.Column("concurrency", sa.Integer(), nullable=True),
        sa.Column("rates", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_team"),
    )
    op.create_table(
        "worker",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_worker"),
    )
    op.create_table(
        "activity",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("endpoint", sa.String(length=20), nullable=False),
        sa.Column("version", sa.SmallInteger(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_activity_team_id"),
        sa.PrimaryKeyConstraint("id", name="pk_activity"),
    )
    op.create_index("ix_activity_at", "activity", ["at"], unique=False)
    op.create_index(
        "ix_activity_team_id", "activity", ["team_id", "at", "id"], unique=False
    )
    op.create_table(
        "hold",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_hold_team_id"),
        sa.PrimaryKeyConstraint("id", name="pk_hold"),
    )
    op.create_index("ix_hold_team_id", "hold", ["team_id"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=36), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name="fk_idempotency_team_id"
        ),
        sa.PrimaryKeyConstraint("team_id", "key", name="pk_idempotency"),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("version", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("page_limit", sa.Integer(), nullable=True),
        sa.Column("open", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.Column("held", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "sitemaps", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "sitemap_files", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("base", sa.Text(), nullable=True),
        sa.Column("warning", sa.Text(), nullable=True),
        sa.Column("credits", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("page_price", sa.Integer(), nullable=True),
        sa.Column(
            "reserved", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("hook_events", sa.String(length=60), nullable=True),
        sa.Column(
            "deliveries", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("parent_id", sa.String(length=36), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("completed_at", sa.Double(), nullable=True),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_job_team_id"),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
    )
    op.create_index("ix_job_expires_at", "job", ["expires_at"], unique=False)
    op.create_index("ix_job_state", "job", ["state"], unique=False)
    op.create_index("ix_job_team_id", "job", ["team_id", "created_at"], unique=False)
    op.create_table(
        "key",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("hint", sa.String(length=4), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_key_team_id"),
        sa.PrimaryKeyConstraint("id", name="pk_key"),
        sa.UniqueConstraint("hash", name="uq_key_hash"),
    )
    op.create_table(
        "ledger",
        sa.Column("page_id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=True),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("credits", sa.Integer(), nullable=False),
        sa.Column("day", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_ledger_team_id"),
        sa.PrimaryKeyConstraint("page_id", name="pk_ledger"),
    )
    op.create_index("ix_ledger_team_id", "ledger", ["team_id", "at"], unique=False)
    op.create_table(
        "rate",
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_rate_team_id"),
        sa.PrimaryKeyConstraint("team_id", "mode", name="pk_rate"),
    )
    op.create_table(
        "scrape",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_scrape_team_id"),
        sa.PrimaryKeyConstraint("id", name="pk_scrape"),
    )
    op.create_index("ix_scrape_expires_at", "scrape", ["expires_at"], unique=False)
    op.create_table(
        "search_page",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("language", sa.String(length=2), nullable=False),
        sa.Column("date", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name="fk_search_page_team_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_search_page"),
    )
    op.create_index(
        "ix_search_page_expires_at", "search_page", ["expires_at"], unique=False
    )
    op.create_index(
        "ix_search_page_key", "search_page", ["team_id", "key"], unique=True
    )
    op.create_index(
        "ix_search_page_language", "search_page", ["team_id", "language"], unique=False
    )
    for statement in SEARCH_INDEX[op.get_bind().dialect.name]:
        op.execute(statement)
    op.create_table(
        "session",
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("cookies", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_session_team_id"),
        sa.PrimaryKeyConstraint("team_id", "name", name="pk_session"),
    )
    op.create_table(
        "share",
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column("granted", sa.Integer(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("in_use", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_share_team_id"),
        sa.PrimaryKeyConstraint("team_id", "owner", name="pk_share"),
    )
    op.create_table(
        "snapshot",
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_snapshot_team_id"),
        sa.PrimaryKeyConstraint("team_id", "key", name="pk_snapshot"),
    )
    op.create_index("ix_snapshot_expires_at", "snapshot", ["expires_at"], unique=False)
    op.create_table(
        "source",
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("fetched_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_source_team_id"),
        sa.PrimaryKeyConstraint("team_id", "key", name="pk_source"),
    )
    op.create_index("ix_source_expires_at", "source", ["expires_at"], unique=False)
    op.create_table(
        "delivery",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("row_id", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("due_at", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "attempts", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "failures", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("log", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_delivery_job_id"),
        sa.PrimaryKeyConstraint("job_id", "seq", name="pk_delivery"),
    )
    op.create_index(
        "ix_delivery_due",
        "delivery",
        ["job_id", "state", "due_at", "seq"],
        unique=False,
    )
    op.create_table(
        "event",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("page_id", sa.String(length=36), nullable=True),
        sa.Column("row_id", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_event_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_event"),
    )
    op.create_index("ix_event_job_id", "event", ["job_id", "id"], unique=False)
    op.create_table(
        "frontier",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column(
            "kind", sa.SmallInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("options", sa.Text(), nullable=True),
        sa.Column("found_on", sa.BigInteger(), nullable=True),
        sa.Column("lastmod", sa.String(length=40), nullable=True),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("token", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "attempts", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("owner", sa.String(length=36), nullable=True),
        sa.Column("page_id", sa.String(length=36), nullable=True),
        sa.Column("code", sa.String(length=60), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_frontier_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_frontier"),
        sa.UniqueConstraint("job_id", "key", name="uq_frontier_job_id"),
    )
    op.create_index(
        "ix_frontier_code",
        "frontier",
        ["job_id", "state", "code", "id"],
        unique=False,
        sqlite_where=sa.text("code IS NOT NULL"),
        postgresql_where=sa.text("code IS NOT NULL"),
    )
    op.create_index(
        "ix_frontier_leased",
        "frontier",
        ["owner", "id"],
        unique=False,
        sqlite_where=sa.text("state = 2"),
        postgresql_where=sa.text("state = 2"),
    )
    op.create_index(
        "ix_frontier_sitemap",
        "frontier",
        ["job_id", "state"],
        unique=False,
        sqlite_where=sa.text("kind = 1"),
        postgresql_where=sa.text("kind = 1"),
    )
    op.create_index(
        "ix_frontier_state", "frontier", ["job_id", "state", "id"], unique=False
    )
    op.create_table(
        "job_host",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=260), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("wait_s", sa.Double(), nullable=False),
        sa.Column("peak_rate", sa.Integer(), nullable=False),
        sa.Column("peak_in_flight", sa.Integer(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_host_job_id"),
        sa.PrimaryKeyConstraint("job_id", "host", name="pk_job_host"),
    )
    op.create_table(
        "job_robots",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("url", sa.String(length=300), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("crawl_delay_s", sa.Double(), nullable=True),
        sa.Column("refused", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_robots_job_id"),
        sa.PrimaryKeyConstraint("job_id", "url", name="pk_job_robots"),
    )
    op.create_table(
        "operation",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("memory", sa.Text(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("tokens", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.String(length=36), nullable=True),
        sa.Column("token", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "attempts", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_operation_job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_operation"),
    )
    op.create_table(
        "page",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("frontier_id", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_page_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_page"),
        sa.UniqueConstraint("frontier_id", name="uq_page_frontier_id"),
        sa.UniqueConstraint("job_id", "seq", name="uq_page_job_id"),
    )
    op.create_table(
        "page_text",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=260), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.BigInteger(), nullable=False),
        sa.Column("blocks", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_page_text_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_page_text"),
    )
    op.create_index("ix_page_text_job_id", "page_text", ["job_id", "id"], unique=False)
    op.create_table(
        "run",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("node", sa.String(length=300), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("asked_by", sa.String(length=36), nullable=False),
        sa.Column("progress", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_run_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_index("ix_run_job_id", "run", ["job_id", "created_at"], unique=False)
    op.create_index(
        "uq_run_slot",
        "run",
        ["job_id", "slot"],
        unique=True,
        sqlite_where=sa.text("state < 3"),
        postgresql_where=sa.text("state < 3"),
    )
    op.create_table(
        "secret",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("part", sa.String(length=40), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_secret_job_id"),
        sa.PrimaryKeyConstraint("job_id", "part", name="pk_secret"),
    )
    op.create_table(
        "webhook",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("receiver", sa.String(length=260), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=True),
        sa.Column("until", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("token", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_webhook_job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_webhook"),
    )
    op.create_index("ix_webhook_due_at", "webhook", ["due_at"], unique=False)
