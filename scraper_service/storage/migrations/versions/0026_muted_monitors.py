"""Until when a monitor sends no mail and no messages."""

import sqlalchemy as sa
from alembic import op

revision = "r0027"
down_revision = "r0026"


def upgrade() -> None:
    op.add_column("monitor", sa.Column("muted_until", sa.Double))
