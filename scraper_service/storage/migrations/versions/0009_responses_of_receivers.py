"""What receivers answered to webhook deliveries."""

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"


def upgrade() -> None:
    op.add_column("delivery", sa.Column("response", sa.Text(), nullable=True))
