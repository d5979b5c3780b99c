"""Jobs that fetch only what may have changed since another job."""

import sqlalchemy as sa
from alembic import op

revision = "r0020"
down_revision = "r0019"


def upgrade() -> None:
    op.add_column("job", sa.Column("base_job_id", sa.String(36), nullable=True))
