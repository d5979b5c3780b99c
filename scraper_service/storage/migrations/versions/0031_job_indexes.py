"""Indexes for the few active jobs of a team among many ended ones."""

import sqlalchemy as sa
from alembic import op

revision = "r0032"
down_revision = "r0031"

IS_STEP = sa.text("parent_id IS NOT NULL")


def upgrade() -> None:
    op.drop_index("ix_job_state", "job")
    op.create_index("ix_job_state", "job", ["state", "team_id", "created_at"])
    op.create_index("ix_job_kind", "job", ["team_id", "kind", "created_at"])
    op.create_index(
        *("ix_job_parent_id", "job", ["parent_id"]),
        sqlite_where=IS_STEP,
        postgresql_where=IS_STEP,
    )
    op.create_index("ix_monitor_check_status", "monitor_check", ["status"])
