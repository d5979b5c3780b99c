"""Where a process runs, what it takes, and if it drains."""

import sqlalchemy as sa
from alembic import op

revision = "r0026"
down_revision = "r0025"


def upgrade() -> None:
    for column in (
        sa.Column("kind", sa.String(20)),
        sa.Column("host", sa.String(255)),
        sa.Column("pid", sa.Integer),
        sa.Column("takes", sa.String(40)),
        sa.Column("jobs", sa.Integer),
        sa.Column("drains", sa.Boolean),
        sa.Column("started_at", sa.Double),
    ):
        op.add_column("worker", column)
