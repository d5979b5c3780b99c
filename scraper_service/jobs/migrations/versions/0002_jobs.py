"""Jobs: frontier, page feed, events, ledger, workers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
UUID = sa.String(36)


def upgrade() -> None:
    op.create_table(
        "job",
        sa.Column("id", UUID, nullable=False),
        sa.Column("team_id", UUID, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("version", sa.SmallInteger, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("page_limit", sa.Integer),
        sa.Column("open", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("pages", sa.Integer, nullable=False),
        sa.Column("held", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("credits", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("completed_at", sa.Double),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_job_team_id"),
    )
    op.create_index("ix_job_state", "job", ["state"])
    op.create_index("ix_job_team_id", "job", ["team_id", "created_at"])
    op.create_index("ix_job_expires_at", "job", ["expires_at"])
    _create_frontier()
    _create_page_tables()
    op.create_table(
        "worker",
        sa.Column("id", UUID, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_worker"),
    )
    op.create_table(
        "idempotency",
        sa.Column("team_id", UUID, nullable=False),
        sa.Column("key", sa.String(36), nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("team_id", "key", name="pk_idempotency"),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name="fk_idempotency_team_id"
        ),
    )


def _create_frontier() -> None:
    op.create_table(
        "frontier",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("job_id", UUID, nullable=False),
        sa.Column("key", sa.BigInteger, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("options", sa.Text),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("token", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("owner", UUID),
        sa.Column("page_id", UUID),
        sa.Column("code", sa.String(60)),
        sa.Column("error", sa.Text),
        sa.Column("ended_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_frontier"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_frontier_job_id"),
        sa.UniqueConstraint("job_id", "key", name="uq_frontier_job_id"),
    )
    for name, column, state in (
        ("held", "job_id", 0),
        ("pending", "job_id", 1),
        ("leased", "owner", 2),
        ("failed", "job_id", 4),
    ):
        where = sa.text(f"state = {state}")
        op.create_index(
            f"ix_frontier_{name}",
            "frontier",
            [column, "id"],
            sqlite_where=where,
            postgresql_where=where,
        )


def _create_page_tables() -> None:
    op.create_table(
        "page",
        sa.Column("id", UUID, nullable=False),
        sa.Column("job_id", UUID, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("frontier_id", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_page"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_page_job_id"),
        sa.UniqueConstraint("frontier_id", name="uq_page_frontier_id"),
        sa.UniqueConstraint("job_id", "seq", name="uq_page_job_id"),
    )
    op.create_table(
        "scrape",
        sa.Column("id", UUID, nullable=False),
        sa.Column("team_id", UUID, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_scrape"),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_scrape_team_id"),
    )
    op.create_index("ix_scrape_expires_at", "scrape", ["expires_at"])
    op.create_table(
        "event",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("job_id", UUID, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("page_id", UUID),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_event"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_event_job_id"),
    )
    op.create_index("ix_event_job_id", "event", ["job_id", "id"])
    op.create_table(
        "ledger",
        sa.Column("page_id", UUID, nullable=False),
        sa.Column("team_id", UUID, nullable=False),
        sa.Column("job_id", UUID),
        sa.Column("credits", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("page_id", name="pk_ledger"),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_ledger_team_id"),
    )
    op.create_index("ix_ledger_team_id", "ledger", ["team_id", "at"])
