"""The sites that a team lets its requests fetch."""

import sqlalchemy as sa
from alembic import op

revision = "r0012"
down_revision = "r0011"


def upgrade() -> None:
    op.add_column("team", sa.Column("site_policy", sa.Text(), nullable=True))
