"""Tokens of language models, by key and by job."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "model_use",
        sa.Column("account", sa.String(80), nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("account", "day", name="pk_model_use"),
    )
    op.create_index("ix_model_use_updated_at", "model_use", ["updated_at"])
