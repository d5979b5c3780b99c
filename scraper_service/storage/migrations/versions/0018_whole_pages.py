"""Pages of jobs that deliver a part of their Markdown are kept whole as well."""

import sqlalchemy as sa
from alembic import op

revision = "r0019"
down_revision = "r0018"


def upgrade() -> None:
    op.add_column("page", sa.Column("whole", sa.LargeBinary(), nullable=True))
