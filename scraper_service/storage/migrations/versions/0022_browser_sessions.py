"""Sessions of the browser, and what opens the page of a scrape again."""

import sqlalchemy as sa
from alembic import op

revision = "r0023"
down_revision = "r0022"


def upgrade() -> None:
    op.create_table(
        "browser_session",
        sa.Column("id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_browser_session"),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name="fk_browser_session_team_id"
        ),
        sa.Column("scrape_id", sa.String(36)),
        sa.Column("owner", sa.String(36), nullable=False),
        sa.Column("profile", sa.String(128)),
        sa.Column("has_view", sa.SmallInteger, nullable=False),
        sa.Column(
            "is_ending", sa.SmallInteger, nullable=False, server_default=sa.text("0")
        ),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("last_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("credits", sa.BigInteger),
    )
    op.create_index(
        "ix_browser_session_team_id", "browser_session", ["team_id", "created_at"]
    )
    op.create_index("ix_browser_session_scrape_id", "browser_session", ["scrape_id"])
    op.create_index("ix_browser_session_ended_at", "browser_session", ["ended_at"])
    op.add_column("scrape", sa.Column("replay", sa.LargeBinary(), nullable=True))
    with op.batch_alter_table("session") as table:
        table.alter_column(
            "name", existing_type=sa.String(64), type_=sa.String(128), nullable=False
        )
