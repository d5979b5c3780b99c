"""Jobs of stored sources copy the rows of large jobs in slices."""

import sqlalchemy as sa
from alembic import op

revision = "r0021"
down_revision = "r0020"


def upgrade() -> None:
    op.add_column("job", sa.Column("copying", sa.Text(), nullable=True))
