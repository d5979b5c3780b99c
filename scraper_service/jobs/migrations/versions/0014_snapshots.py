"""What tracked pages were like when they were last scraped."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "snapshot",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_snapshot_team_id"),
        sa.PrimaryKeyConstraint("team_id", "key", name="pk_snapshot"),
    )
    op.create_index("ix_snapshot_expires_at", "snapshot", ["expires_at"])
