"""Messages about checks of monitors to channels."""

import sqlalchemy as sa
from alembic import op

revision = "r0022"
down_revision = "r0021"


def upgrade() -> None:
    op.create_table(
        "monitor_message",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name="fk_monitor_message_job_id"
        ),
        sa.Column("channel", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "channel", name="pk_monitor_message"),
        sa.Column("due_at", sa.Double),
        sa.Column("tried_at", sa.Double),
        sa.Column("tries", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column(
            "failed", sa.SmallInteger, nullable=False, server_default=sa.text("0")
        ),
    )
    op.create_index("ix_monitor_message_due_at", "monitor_message", ["due_at"])
    op.create_index(
        "ix_monitor_message_channel", "monitor_message", ["channel", "tried_at"]
    )
