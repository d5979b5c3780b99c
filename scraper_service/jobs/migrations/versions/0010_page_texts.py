"""Texts of delivered pages, to see what repeats over a site."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "page_text",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            nullable=False,
        ),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("host", sa.String(260), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.BigInteger, nullable=False),
        sa.Column("blocks", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_page_text_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_page_text"),
    )
    op.create_index("ix_page_text_job_id", "page_text", ["job_id", "id"])
