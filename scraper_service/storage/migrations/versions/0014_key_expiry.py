"""Keys that end at a time."""

import sqlalchemy as sa
from alembic import op

revision = "r0015"
down_revision = "r0014"


def upgrade() -> None:
    expires_at = sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True)
    op.add_column("key", expires_at)
