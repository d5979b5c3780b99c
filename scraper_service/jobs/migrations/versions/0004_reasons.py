"""Sitemaps, and the reason why an address was not fetched."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for name in ("held", "pending", "failed"):
        op.drop_index(f"ix_frontier_{name}", "frontier")
    zero = sa.text("0")
    columns = (
        sa.Column("kind", sa.SmallInteger, nullable=False, server_default=zero),
        sa.Column("found_on", sa.BigInteger),
        sa.Column("lastmod", sa.String(40)),
    )
    for column in columns:
        op.add_column("frontier", column)
    op.create_index("ix_frontier_state", "frontier", ["job_id", "state", "id"])
    for name in ("skipped", "sitemaps", "sitemap_files"):
        column = sa.Column(name, sa.Integer, nullable=False, server_default=zero)
        op.add_column("job", column)
    for name in ("base", "warning"):
        op.add_column("job", sa.Column(name, sa.Text))
    op.drop_column("job", "bytes")
    op.drop_column("page", "start")
