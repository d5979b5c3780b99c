"""Files that pages point at, and named sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "artefact",
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("holder", sa.String(80), nullable=False),
        sa.Column("job_id", sa.String(36)),
        sa.Column("expires_at", sa.Double),
        sa.PrimaryKeyConstraint("name", "holder", name="pk_artefact"),
    )
    op.create_index("ix_artefact_expires_at", "artefact", ["expires_at"])
    op.create_index("ix_artefact_job_id", "artefact", ["job_id"])
    op.create_table(
        "session",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("cookies", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_session_team_id"),
        sa.PrimaryKeyConstraint("team_id", "name", name="pk_session"),
    )
