"""Changed rules of crawls, and what another attempt at failed pages needs."""

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"


def upgrade() -> None:
    op.add_column("job", sa.Column("sweep", sa.Text(), nullable=True))
    op.add_column("job", sa.Column("secrets", sa.String(length=40), nullable=True))
    op.add_column("frontier", sa.Column("status", sa.SmallInteger(), nullable=True))
    # Secrets exist of active jobs only. Their names are encrypted with them.
    op.execute(
        "UPDATE job SET secrets = 'headers' WHERE id IN"
        " (SELECT job_id FROM secret WHERE part <> 'webhook')"
    )
