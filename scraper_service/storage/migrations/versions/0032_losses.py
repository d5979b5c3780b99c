"""What delivered pages lost, for the filter of the URLs of a job."""

import sqlalchemy as sa
from alembic import op

revision = "r0033"
down_revision = "r0032"


def upgrade() -> None:
    op.add_column("frontier", sa.Column("losses", sa.Text))
    where = sa.text("losses IS NOT NULL")
    op.create_index(
        "ix_frontier_losses",
        "frontier",
        ["job_number", "state", "id"],
        sqlite_where=where,
        postgresql_where=where,
    )
