"""Reads and deletions of a job: names of its headers, files of single calls."""

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"


def upgrade() -> None:
    op.add_column("job", sa.Column("header_names", sa.Text(), nullable=True))
    op.create_index("ix_artefact_holder", "artefact", ["holder"], unique=False)
