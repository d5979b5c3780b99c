"""Which processes worked on a job, and when."""

import sqlalchemy as sa
from alembic import op

revision = "r0013"
down_revision = "r0012"


def upgrade() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "job_log",
        sa.Column("id", serial, nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_log_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_job_log"),
    )
    op.create_index("ix_job_log_job_id", "job_log", ["job_id", "id"])
