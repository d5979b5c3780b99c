"""Jobs that read the stored responses of another job."""

import sqlalchemy as sa
from alembic import op

revision = "r0016"
down_revision = "r0015"


def upgrade() -> None:
    op.add_column("job", sa.Column("source_job_id", sa.String(36), nullable=True))
