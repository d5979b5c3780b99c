"""Monitors, their checks, pages and snapshots."""

import sqlalchemy as sa
from alembic import op

revision = "r0018"
down_revision = "r0017"


def upgrade() -> None:
    op.create_table(
        "monitor",
        sa.Column("id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_monitor"),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name="fk_monitor_team_id"),
        sa.Column("key_id", sa.String(36)),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.Column("goal", sa.Text),
        sa.Column("judge", sa.SmallInteger, nullable=False),
        sa.Column("definition", sa.Text),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("notification", sa.Text),
        sa.Column("retention_days", sa.Integer, nullable=False),
        sa.Column("estimate", sa.BigInteger, nullable=False),
        sa.Column("reserve", sa.BigInteger, nullable=False),
        sa.Column("next_at", sa.Double),
        sa.Column("last_at", sa.Double),
        sa.Column("check_id", sa.String(36)),
        sa.Column("summary", sa.Text),
        sa.Column("failures", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
    )
    op.create_index("ix_monitor_team_id", "monitor", ["team_id", "created_at", "id"])
    op.create_index("ix_monitor_next_at", "monitor", ["next_at"])
    op.create_table(
        "monitor_check",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_monitor_check_job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_monitor_check"),
        sa.Column("monitor_id", sa.String(36), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("trigger", sa.String(20), nullable=False),
        sa.Column("definition", sa.Text),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("results", sa.Text, nullable=False),
        sa.Column("pages", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("estimate", sa.BigInteger),
        sa.Column("credits", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.Column("scheduled_for", sa.Double),
        sa.Column("started_at", sa.Double),
        sa.Column("finished_at", sa.Double),
        sa.Column("mail_at", sa.Double),
        sa.Column(
            "mail_tries", sa.Integer, nullable=False, server_default=sa.text("0")
        ),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
    )
    op.create_index("ix_monitor_check_mail_at", "monitor_check", ["mail_at"])
    op.create_index(
        "ix_monitor_check_monitor_id",
        "monitor_check",
        ["monitor_id", "created_at", "job_id"],
    )
    op.create_table(
        "monitor_page",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_monitor_page_job_id"),
        sa.Column("seq", sa.Integer, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("job_id", "seq", name="pk_monitor_page"),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index(
        "ix_monitor_page_status", "monitor_page", ["job_id", "status", "seq"]
    )
    op.create_table(
        "monitor_snapshot",
        sa.Column("monitor_id", sa.String(36), nullable=False),
        sa.Column("target_id", sa.String(36), nullable=False),
        sa.Column("key", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint(
            "monitor_id", "target_id", "key", name="pk_monitor_snapshot"
        ),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("scrape_id", sa.String(36)),
        sa.Column("check_id", sa.String(36), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("body", sa.LargeBinary),
    )
