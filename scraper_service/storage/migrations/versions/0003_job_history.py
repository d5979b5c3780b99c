"""Lists of jobs: targets, start times, errors of single calls, and retention."""

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0003"

LISTED = sa.text("parent_id IS NULL")
# Zero data retention hides the URL of a job.
SET_TARGETS = {
    "sqlite": """
UPDATE job SET target = substr(url, 1, 300)
  WHERE coalesce(json_extract(options, '$.scrape.zero_data_retention'), 0) = 0
""",
    "postgresql": """
UPDATE job SET target = substr(url, 1, 300)
  WHERE coalesce(options::json->'scrape'->>'zero_data_retention', '') <> 'true'
""",
}
# The count now includes targets of redirects, and no URL that was fetched after all.
COUNT_SKIPPED = """
UPDATE job SET skipped = (SELECT count(*) FROM frontier
  WHERE job_id = job.id AND state IN (5, 6) AND kind = 0)
"""


def upgrade() -> None:
    op.add_column("job", sa.Column("target", sa.Text(), nullable=True))
    op.add_column("job", sa.Column("started_at", sa.Double(), nullable=True))
    day = sa.text("86400")
    op.add_column(
        "job", sa.Column("retention_s", sa.Double(), server_default=day, nullable=False)
    )
    op.create_index(
        "ix_job_listed",
        "job",
        ["team_id", "kind", "state", "created_at", "id"],
        unique=False,
        sqlite_where=LISTED,
        postgresql_where=LISTED,
    )
    op.add_column("activity", sa.Column("error", sa.Text(), nullable=True))
    op.add_column("activity", sa.Column("origin", sa.Text(), nullable=True))
    op.add_column(
        "activity",
        sa.Column(
            "expires_at", sa.Double(), server_default=sa.text("0"), nullable=False
        ),
    )
    op.drop_index("ix_activity_at", "activity")
    op.create_index("ix_activity_expires_at", "activity", ["expires_at"], unique=False)
    op.create_index(
        "ix_activity_endpoint",
        "activity",
        ["team_id", "endpoint", "at", "id"],
        unique=False,
    )
    connection = op.get_bind()
    for statement in (
        "UPDATE activity SET expires_at = at + 86400",
        SET_TARGETS[connection.dialect.name],
        "UPDATE job SET started_at = created_at WHERE state <> 'queued'",
        COUNT_SKIPPED,
    ):
        connection.exec_driver_sql(statement)
