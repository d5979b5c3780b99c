"""Raw sources of pages, for maxAge."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "source",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("fetched_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("team_id", "key", name="pk_source"),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_source_team_id"),
    )
    op.create_index("ix_source_expires_at", "source", ["expires_at"])
