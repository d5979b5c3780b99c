"""Stored pages are compressed with Zstandard, which earlier versions cannot read.

The tables stay as they are, and so do rows that zlib has compressed. With this revision an
earlier version refuses the database at its start, and not at each page.
"""

revision = "r0009"
down_revision = "r0008"


def upgrade() -> None:
    """Change nothing."""
