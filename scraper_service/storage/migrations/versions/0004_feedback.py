"""Feedback on calls."""

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"


def upgrade() -> None:
    op.create_table(
        "feedback",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("endpoint", sa.String(length=20), nullable=False),
        sa.Column("rating", sa.String(length=10), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_feedback_team_id"),
        sa.PrimaryKeyConstraint("id", name="pk_feedback"),
        sa.UniqueConstraint("team_id", "job_id", name="uq_feedback_team_id"),
    )
    op.create_index("ix_feedback_team_id", "feedback", ["team_id", "at", "id"])
    op.create_index("ix_feedback_at", "feedback", ["at"])
