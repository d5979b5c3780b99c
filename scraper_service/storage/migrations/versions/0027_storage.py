"""Room for changed rows, and more vacuums, on PostgreSQL."""

from alembic import op

revision = "r0028"
down_revision = "r0027"

OPTIONS = {
    "frontier": "autovacuum_vacuum_scale_factor = 0.02,"
    " autovacuum_analyze_scale_factor = 0.02",
    "job": "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02",
    **dict.fromkeys(
        ("host", "host_share", "rate", "share", "team", "worker"), "fillfactor = 50"
    ),
}


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table, options in OPTIONS.items():
            op.execute(f"ALTER TABLE {table} SET ({options})")
