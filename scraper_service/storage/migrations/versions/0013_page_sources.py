"""The responses that pages of jobs were made of."""

import sqlalchemy as sa
from alembic import op

revision = "r0014"
down_revision = "r0013"


def upgrade() -> None:
    op.create_table(
        "page_source",
        sa.Column("page_id", sa.String(length=36), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_page_source_job_id")
        ),
        sa.PrimaryKeyConstraint("page_id", name=op.f("pk_page_source")),
    )
    op.create_index(op.f("ix_page_source_job_id"), "page_source", ["job_id"])
