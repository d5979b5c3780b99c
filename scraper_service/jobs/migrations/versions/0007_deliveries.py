"""Webhooks: where events of jobs are sent, and the outbox."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    zero = sa.text("0")
    op.add_column("job", sa.Column("hook_events", sa.String(60)))
    op.add_column(
        "job", sa.Column("deliveries", sa.Integer, nullable=False, server_default=zero)
    )
    op.create_table(
        "webhook",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("receiver", sa.String(260), nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("until", sa.Double, nullable=False, server_default=zero),
        sa.Column("token", sa.Integer, nullable=False, server_default=zero),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_webhook_job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_webhook"),
    )
    op.create_index("ix_webhook_due_at", "webhook", ["due_at"])
    op.create_table(
        "delivery",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("row_id", sa.BigInteger),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False, server_default=zero),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=zero),
        sa.Column("failures", sa.Integer, nullable=False, server_default=zero),
        sa.Column("log", sa.Text, nullable=False, server_default=sa.text("'[]'")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_delivery_job_id"),
        sa.PrimaryKeyConstraint("job_id", "seq", name="pk_delivery"),
    )
    columns = ["job_id", "state", "due_at", "seq"]
    op.create_index("ix_delivery_due", "delivery", columns)
