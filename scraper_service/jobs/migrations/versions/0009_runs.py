"""Runs: processes on nodes that were asked to work on a job."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("slot", sa.SmallInteger, nullable=False),
        sa.Column("node", sa.String(300), nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("asked_by", sa.String(36), nullable=False),
        sa.Column("progress", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_run_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_index("ix_run_job_id", "run", ["job_id", "created_at"])
    live = sa.text("state < 3")
    op.create_index(
        "uq_run_slot",
        "run",
        ["job_id", "slot"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
