"""Indexes for the few active jobs of a team among many ended ones, and for its debts."""

import sqlalchemy as sa
from alembic import op

revision = "r0032"
down_revision = "r0031"


def upgrade() -> None:
    op.drop_index("ix_job_state", "job")
    op.create_index("ix_job_state", "job", ["state", "team_id", "created_at"])
    op.create_index("ix_job_kind", "job", ["team_id", "kind", "created_at"])
    op.create_index("ix_monitor_check_status", "monitor_check", ["status"])
    _create_partial("ix_job_parent_id", "job", "parent_id", "parent_id IS NOT NULL")
    _create_partial("ix_hold_debt", "hold", "team_id", "credits < 0")


def _create_partial(name: str, table: str, column: str, where: str) -> None:
    clause = sa.text(where)
    op.create_index(name, table, [column], sqlite_where=clause, postgresql_where=clause)
