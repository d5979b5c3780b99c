"""What teams may do and have done: credits, rates, concurrency, activity."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    zero = sa.text("0")
    op.add_column("team", sa.Column("credits", sa.BigInteger))
    op.add_column("team", sa.Column("plan_credits", sa.BigInteger))
    op.add_column("team", sa.Column("concurrency", sa.Integer))
    op.add_column("team", sa.Column("rates", sa.Text))
    op.add_column("job", sa.Column("key_id", sa.String(36)))
    op.add_column("job", sa.Column("page_price", sa.Integer))
    reserved = sa.Column("reserved", sa.BigInteger, nullable=False, server_default=zero)
    op.add_column("job", reserved)
    op.add_column("ledger", sa.Column("key_id", sa.String(36)))
    day = sa.Column("day", sa.Integer, nullable=False, server_default=zero)
    op.add_column("ledger", day)
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    whole = "CAST(at / 86400 AS INTEGER)" if is_sqlite else "floor(at / 86400)"
    op.execute(f"UPDATE ledger SET day = {whole}")  # noqa: S608  # of constants
    op.create_table(
        "hold",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("credits", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(36)),
        sa.PrimaryKeyConstraint("id", name="pk_hold"),
        _of_team("hold"),
    )
    op.create_index("ix_hold_team_id", "hold", ["team_id"])
    op.create_table(
        "rate",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("mode", sa.String(20), nullable=False),
        sa.Column("used", sa.Integer, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("team_id", "mode", name="pk_rate"),
        _of_team("rate"),
    )
    op.create_table(
        "share",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(36), nullable=False),
        sa.Column("granted", sa.Integer, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("in_use", sa.Integer, nullable=False),
        sa.Column("since", sa.Double),
        sa.PrimaryKeyConstraint("team_id", "owner", name="pk_share"),
        _of_team("share"),
    )
    op.create_table(
        "activity",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("endpoint", sa.String(20), nullable=False),
        sa.Column("version", sa.SmallInteger, nullable=False),
        sa.Column("target", sa.Text),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_activity"),
        _of_team("activity"),
    )
    op.create_index("ix_activity_team_id", "activity", ["team_id", "at", "id"])
    op.create_index("ix_activity_at", "activity", ["at"])


def _of_team(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=f"fk_{table}_team_id")
