"""Run the migrations over the connection that :mod:`..database` hands in."""

from alembic import context

from scraper_service.storage.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=metadata, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
