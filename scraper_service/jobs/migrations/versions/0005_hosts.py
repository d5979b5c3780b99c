"""The pace of hosts, over all processes."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "host",
        sa.Column("host", sa.String(260), nullable=False),
        sa.Column("next_at", sa.Double, nullable=False, server_default=sa.text("0")),
        sa.Column("held_by", sa.String(36)),
        sa.Column("opens_at", sa.Double, nullable=False, server_default=sa.text("0")),
        sa.Column("at_once", sa.SmallInteger),
        sa.Column("gap_s", sa.Double, nullable=False, server_default=sa.text("0")),
        sa.Column("start_at", sa.Double, nullable=False, server_default=sa.text("0")),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("host", name="pk_host"),
    )
    op.create_index("ix_host_updated_at", "host", ["updated_at"])
