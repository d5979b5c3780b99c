"""Events of failed pages: the address that each is about."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("event", sa.Column("row_id", sa.BigInteger))
