"""What each job asked of its hosts, and the reasons of its addresses counted fast."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    zero = sa.text("0")
    op.create_table(
        "job_host",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("host", sa.String(260), nullable=False),
        sa.Column("requests", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("wait_s", sa.Double, nullable=False),
        sa.Column("peak_rate", sa.Integer, nullable=False),
        sa.Column("peak_in_flight", sa.Integer, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "host", name="pk_job_host"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_host_job_id"),
    )
    op.create_table(
        "job_robots",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("url", sa.String(300), nullable=False),
        sa.Column("state", sa.String(20)),
        sa.Column("detail", sa.Text),
        sa.Column("agent", sa.Text),
        sa.Column("crawl_delay_s", sa.Double),
        sa.Column("refused", sa.Integer, nullable=False, server_default=zero),
        sa.PrimaryKeyConstraint("job_id", "url", name="pk_job_robots"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_robots_job_id"),
    )
    has_code, is_sitemap = sa.text("code IS NOT NULL"), sa.text("kind = 1")
    op.create_index(
        "ix_frontier_code",
        "frontier",
        ["job_id", "state", "code", "id"],
        sqlite_where=has_code,
        postgresql_where=has_code,
    )
    op.create_index(
        "ix_frontier_sitemap",
        "frontier",
        ["job_id", "state"],
        sqlite_where=is_sitemap,
        postgresql_where=is_sitemap,
    )
