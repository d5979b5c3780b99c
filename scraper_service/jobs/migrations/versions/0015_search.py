"""The index of scraped pages."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "search_page",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("fetched_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("text", sa.LargeBinary, nullable=False),
        sa.Column("terms", sa.LargeBinary),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name="fk_search_page_team_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_search_page"),
    )
    op.create_index("ix_search_page_key", "search_page", ["team_id", "key"])
    op.create_index("ix_search_page_expires_at", "search_page", ["expires_at"])
    op.create_index(
        "ix_search_page_waiting",
        "search_page",
        ["team_id", "id"],
        sqlite_where=sa.text("terms IS NOT NULL"),
        postgresql_where=sa.text("terms IS NOT NULL"),
    )
    op.create_table(
        "search_segment",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("level", sa.SmallInteger, nullable=False),
        sa.Column("bits", sa.SmallInteger, nullable=False),
        sa.Column("languages", sa.Text, nullable=False),
        sa.Column("pages", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name="fk_search_segment_team_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_search_segment"),
    )
    op.create_index("ix_search_segment_team_id", "search_segment", ["team_id", "state"])
    op.create_index(
        "ix_search_segment_expires_at", "search_segment", ["state", "expires_at"]
    )
    op.create_table(
        "search_list",
        sa.Column("segment_id", _SERIAL, nullable=False),
        sa.Column("piece", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(
            ["segment_id"], ["search_segment.id"], name="fk_search_list_segment_id"
        ),
        sa.PrimaryKeyConstraint("segment_id", "piece", name="pk_search_list"),
    )
