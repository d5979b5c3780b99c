"""Facts about the installation, such as what stands for its secret."""

import sqlalchemy as sa
from alembic import op

revision = "r0024"
down_revision = "r0023"


def upgrade() -> None:
    op.create_table(
        "installation",
        sa.Column("name", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_installation"),
        sa.Column("value", sa.Text, nullable=False),
    )
