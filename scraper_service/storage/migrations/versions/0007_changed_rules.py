"""Changed rules of crawls, and the status of the site for pages that failed."""

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"


def upgrade() -> None:
    op.add_column("job", sa.Column("sweep", sa.Text(), nullable=True))
    op.add_column("frontier", sa.Column("status", sa.SmallInteger(), nullable=True))
