"""Bodies of kept responses in object storage, and no second compression of values.

PostgreSQL would try to compress large values that are compressed already.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0031"
down_revision = "r0030"

COMPRESSED = (
    *(("page", "body"), ("page", "whole")),
    *(("page_source", "head"), ("page_source", "body"), ("refused_list", "body")),
    *(("scrape", "body"), ("source", "body"), ("snapshot", "body")),
    *(("operation", "result"), ("monitor_page", "body"), ("search_page", "text")),
)


def upgrade() -> None:
    op.add_column("page_source", sa.Column("length", sa.Integer()))
    op.add_column("page_source", sa.Column("digest", sa.LargeBinary()))
    op.create_index(
        "ix_page_source_digest",
        "page_source",
        ["digest"],
        sqlite_where=sa.text("digest IS NOT NULL"),
        postgresql_where=sa.text("digest IS NOT NULL"),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table, column in COMPRESSED:
            op.execute(f"ALTER TABLE {table} ALTER {column} SET STORAGE EXTERNAL")
