"""Uploads in two steps."""

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"


def upgrade() -> None:
    op.create_table(
        "upload",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("file", sa.String(length=36), nullable=True),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_upload_team_id"),
        sa.PrimaryKeyConstraint("id", name="pk_upload"),
        sa.UniqueConstraint("token", name="uq_upload_token"),
    )
    op.create_index("ix_upload_team_id", "upload", ["team_id", "expires_at"])
    op.create_index("ix_upload_expires_at", "upload", ["expires_at"])
