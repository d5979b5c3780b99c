"""Debts of teams are found without a look at their other holds."""

import sqlalchemy as sa
from alembic import op

revision = "r0032"
down_revision = "r0031"


def upgrade() -> None:
    op.create_index(
        "ix_hold_debt",
        "hold",
        ["team_id"],
        sqlite_where=sa.text("credits < 0"),
        postgresql_where=sa.text("credits < 0"),
    )
