"""Numbers of jobs in place of their ids, in tables with rows for each URL or page.

These tables are made anew, so that their columns have the order of their sizes, and no
dropped column keeps its room.
"""

import sqlalchemy as sa
from alembic import op

# ruff: noqa: S608  # the statements are of constants

revision = "r0029"
down_revision = "r0028"

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ZERO = sa.text("0")
IS_NUMBERED = ("frontier", "event", "page_text")  # by the database


def upgrade() -> None:
    _number_jobs()
    _replace("page_text", _page_text())
    _replace("event", _event())
    _replace("page_source", _page_source())
    _replace("page", _page())
    _replace("frontier", _frontier())
    op.create_index("ix_page_text_job_number", "page_text", ["job_number", "id"])
    op.create_index("ix_event_job_number", "event", ["job_number", "id"])
    op.create_index("ix_page_source_job_number", "page_source", ["job_number"])
    op.create_index("ix_frontier_state", "frontier", ["job_number", "state", "id"])
    for name, columns, where in (
        ("leased", ["owner", "id"], "state = 2"),
        ("code", ["job_number", "state", "code", "id"], "code IS NOT NULL"),
        ("sitemap", ["job_number", "state"], "kind = 1"),
    ):
        op.create_index(
            f"ix_frontier_{name}",
            "frontier",
            columns,
            sqlite_where=sa.text(where),
            postgresql_where=sa.text(where),
        )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "ALTER TABLE frontier SET (autovacuum_vacuum_scale_factor = 0.02,"
            " autovacuum_analyze_scale_factor = 0.02)"
        )


def _number_jobs() -> None:
    number = sa.Column("number", sa.BigInteger(), nullable=False, server_default=ZERO)
    op.add_column("job", number)
    if op.get_bind().dialect.name == "sqlite":
        op.execute("UPDATE job SET number = rowid")
    else:
        op.execute("CREATE SEQUENCE job_number_seq")
        op.execute("UPDATE job SET number = nextval('job_number_seq')")
    op.create_index("ix_job_number", "job", ["number"], unique=True)


def _replace(name: str, columns: list[sa.schema.SchemaItem]) -> None:
    """Move the rows of a table to one with other ``columns``."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    former = f"{name}_former"
    if is_postgresql:  # where the names of indexes and sequences would clash
        bind = op.get_bind()
        for (constraint,) in bind.execute(
            sa.text(
                "SELECT conname FROM pg_constraint"
                " WHERE conrelid = CAST(:name AS regclass)"
                " ORDER BY contype = 'p', conname"
            ),
            {"name": name},
        ).all():
            op.execute(f'ALTER TABLE {name} DROP CONSTRAINT "{constraint}"')
        if name in IS_NUMBERED:
            op.execute(f"ALTER SEQUENCE {name}_id_seq RENAME TO {former}_id_seq")
    for index in sa.inspect(op.get_bind()).get_indexes(name):
        if "duplicates_constraint" not in index:
            op.drop_index(str(index["name"]), name)
    op.rename_table(name, former)
    op.create_table(name, *columns)
    names = [
        each.name
        for each in columns
        if isinstance(each, sa.Column) and each.name != "job_number"
    ]
    op.execute(
        f"INSERT INTO {name} (job_number, {', '.join(names)})"
        f" SELECT job.number, {', '.join(f'former.{each}' for each in names)}"
        f" FROM {former} AS former JOIN job ON job.id = former.job_id"
        f" ORDER BY former.{names[0]}"
    )
    if is_postgresql and name in IS_NUMBERED:
        # Numbers of deleted rows are not given again: readers go by the highest.
        op.execute(
            f"SELECT setval('{name}_id_seq', last_value, is_called)"
            f" FROM {former}_id_seq"
        )
    op.drop_table(former)


def _of_job(name: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("job_number", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_number"], ["job.number"], name=f"fk_{name}_job_number"
        ),
    ]


def _frontier() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", SERIAL, nullable=False),
        *_of_job("frontier"),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("found_on", sa.BigInteger()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False, server_default=ZERO),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default=ZERO),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False, server_default=ZERO),
        sa.Column("status", sa.SmallInteger()),
        sa.Column("owner", sa.String(36)),
        sa.Column("page_id", sa.String(36)),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("lastmod", sa.String(40)),
        sa.Column("code", sa.String(60)),
        sa.Column("error", sa.Text()),
        sa.Column("options", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_frontier"),
        sa.UniqueConstraint("job_number", "key", name="uq_frontier_job_number"),
    ]


def _page() -> list[sa.schema.SchemaItem]:
    return [
        *_of_job("page"),
        sa.Column("frontier_id", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("whole", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("id", name="pk_page"),
        sa.UniqueConstraint("frontier_id", name="uq_page_frontier_id"),
        sa.UniqueConstraint("job_number", "seq", name="uq_page_job_number"),
    ]


def _page_source() -> list[sa.schema.SchemaItem]:
    return [
        *_of_job("page_source"),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("page_id", sa.String(36), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("page_id", name="pk_page_source"),
    ]


def _event() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", SERIAL, nullable=False),
        *_of_job("event"),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("row_id", sa.BigInteger()),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("page_id", sa.String(36)),
        sa.Column("detail", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_event"),
    ]


def _page_text() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", SERIAL, nullable=False),
        *_of_job("page_text"),
        sa.Column("fingerprint", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(260), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("blocks", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_page_text"),
    ]
