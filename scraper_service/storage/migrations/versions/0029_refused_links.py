"""Links that are only listed, in lists. Those of before stay rows of the frontier."""

import sqlalchemy as sa
from alembic import op

revision = "r0030"
down_revision = "r0029"


def upgrade() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "refused_list",
        sa.Column("id", serial, nullable=False),
        sa.Column("job_number", sa.BigInteger(), nullable=False),
        sa.Column("found_on", sa.BigInteger()),
        sa.Column("urls", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("code", sa.String(60), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_number"], ["job.number"], name="fk_refused_list_job_number"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_refused_list"),
    )
    columns = ["job_number", "id", "code", "urls"]
    op.create_index("ix_refused_list_job_number", "refused_list", columns)
    op.create_table(
        "refused_key",
        sa.Column("job_number", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("list_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_number"], ["job.number"], name="fk_refused_key_job_number"
        ),
        sa.PrimaryKeyConstraint("job_number", "key", name="pk_refused_key"),
        sqlite_with_rowid=False,
    )
