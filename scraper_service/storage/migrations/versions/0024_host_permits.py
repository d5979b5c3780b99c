"""Requests in flight at a host, divided among processes."""

import sqlalchemy as sa
from alembic import op

revision = "r0025"
down_revision = "r0024"


def upgrade() -> None:
    op.create_table(
        "host_share",
        sa.Column("host", sa.String(260), nullable=False),
        sa.Column("owner", sa.String(36), nullable=False),
        sa.Column("granted", sa.Integer, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("in_use", sa.Integer, nullable=False),
        sa.Column("since", sa.Double),
        sa.PrimaryKeyConstraint("host", "owner", name="pk_host_share"),
    )
    op.create_index("ix_host_share_owner", "host_share", ["owner"])
    op.add_column(
        "worker",
        sa.Column(
            "shares_hosts",
            sa.SmallInteger,
            nullable=False,
            server_default=sa.text("0"),
        ),
    )
