"""Paused jobs and changed options; events with details; more kinds of webhook events."""

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"


def upgrade() -> None:
    op.add_column("job", sa.Column("paused_at", sa.Double(), nullable=True))
    op.add_column(
        "job",
        sa.Column(
            "revision", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
    )
    for table in ("event", "delivery"):
        op.add_column(table, sa.Column("detail", sa.Text(), nullable=True))
    # SQLite cannot change the type of a column.
    op.add_column("job", sa.Column("hook_kinds", sa.Text(), nullable=True))
    op.execute("UPDATE job SET hook_kinds = hook_events")
    op.drop_column("job", "hook_events")
    op.execute("ALTER TABLE job RENAME COLUMN hook_kinds TO hook_events")
