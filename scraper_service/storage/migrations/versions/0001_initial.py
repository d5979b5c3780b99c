"""The first layout: every table of :mod:`scraper_service.storage.schema`."""

from alembic import op

from scraper_service.storage.database import HEAD, create_statements

revision = HEAD  # until the first release: then the name of that layout
down_revision = None


def upgrade() -> None:
    for statement in create_statements(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)
