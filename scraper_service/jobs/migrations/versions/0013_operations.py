"""Operations of several steps, and jobs that are steps of one."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("job", sa.Column("parent_id", sa.String(36)))
    op.create_table(
        "operation",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("memory", sa.Text, nullable=False),
        sa.Column("result", sa.LargeBinary),
        sa.Column("tokens", sa.BigInteger),
        sa.Column("owner", sa.String(36)),
        sa.Column("token", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_operation_job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_operation"),
    )
