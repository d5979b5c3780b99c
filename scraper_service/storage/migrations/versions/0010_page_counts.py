"""Counts of the delivered pages of a job by status, depth, verdict and field."""

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"


def upgrade() -> None:
    op.add_column("job", sa.Column("page_counts", sa.Text(), nullable=True))
