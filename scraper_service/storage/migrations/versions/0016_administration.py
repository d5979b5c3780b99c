"""Scopes of keys, the audit log, and the bytes that teams have stored."""

import sqlalchemy as sa
from alembic import op

revision = "r0017"
down_revision = "r0016"


def upgrade() -> None:
    op.add_column("key", sa.Column("scope", sa.String(length=10), nullable=True))
    op.create_table(
        "audit",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("team_id", sa.String(length=36), nullable=True),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("key_name", sa.String(length=200), nullable=True),
        sa.Column("peer", sa.String(length=80), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at", "id"])
    op.create_index(op.f("ix_audit_team_id"), "audit", ["team_id", "at", "id"])
    _count_bytes()


def _count_bytes() -> None:
    """Add the counts of stored bytes. Files that are stored already count as 0."""
    size = sa.BigInteger()
    op.add_column("team", sa.Column("disk_mb", size, nullable=True))
    for table, name in (("job", "stored"), ("upload", "size"), ("artefact", "size")):
        zero = sa.text("0")
        op.add_column(table, sa.Column(name, size, nullable=False, server_default=zero))
    op.add_column("artefact", sa.Column("team_id", sa.String(length=36), nullable=True))
    op.create_table(
        "disk_use",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
        ),
        sa.Column("team_id", sa.String(length=36), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["team_id"], ["team.id"], name=op.f("fk_disk_use_team_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_disk_use")),
    )
    op.create_index(op.f("ix_disk_use_team_id"), "disk_use", ["team_id"])
    op.execute(
        """UPDATE job SET stored =
            COALESCE((SELECT SUM(LENGTH(body)) FROM page WHERE job_id = job.id), 0)
            + COALESCE((SELECT SUM(LENGTH(head) + LENGTH(body)) FROM page_source
                WHERE job_id = job.id), 0)
            + COALESCE((SELECT SUM(LENGTH(result)) FROM operation
                WHERE job_id = job.id), 0)"""
    )
    op.execute(
        """INSERT INTO disk_use (team_id, bytes)
            SELECT team_id, SUM(stored) FROM job WHERE stored > 0 GROUP BY team_id"""
    )
    op.execute(
        """INSERT INTO disk_use (team_id, bytes)
            SELECT team_id, SUM(LENGTH(body)) FROM scrape GROUP BY team_id"""
    )
