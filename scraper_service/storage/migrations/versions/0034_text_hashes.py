"""What later crawls compare unchanged pages with, once the page itself is deleted."""

import sqlalchemy as sa
from alembic import op

revision = "r0034"
down_revision = "r0033"


def upgrade() -> None:
    op.add_column("frontier", sa.Column("text_hashes", sa.Text))
