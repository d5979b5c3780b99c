"""What a page takes in PostgreSQL by table and index: bytes of the database and of its log.

Parts of the scale benchmark. The log is read with ``pg_walinspect`` and statements are counted
with ``pg_stat_statements``, both of PostgreSQL's contrib package.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tools.bench.report import table

if TYPE_CHECKING:
    from tools.bench.scale import Server

#: Options of the server: counts of statements, and a log that stays until it is read.
OPTIONS = {
    "shared_preload_libraries": "pg_stat_statements",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
}
_SIZES = """
SELECT coalesce(owner.relname, of_index.relname, c.relname),
       CASE WHEN c.relkind = 'i' THEN c.relname ELSE 'rows' END, pg_relation_size(c.oid)
FROM pg_class c
LEFT JOIN pg_class owner ON owner.reltoastrelid = c.oid
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class of_index ON of_index.oid = i.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('public', 'pg_toast')
WHERE c.relkind IN ('r', 'i', 't')
"""
_RELATION = re.compile(r"rel \d+/(\d+)/(\d+)")
MOST = 40  # lines of a table


def sizes(server: Server) -> Counter[tuple[str, str]]:
    """Return the bytes of tables and indexes, those of large values with their table."""
    found: Counter[tuple[str, str]] = Counter()
    toasts = dict(
        server.rows(
            "SELECT t.relname, c.relname FROM pg_class c"
            " JOIN pg_class t ON t.oid = c.reltoastrelid"
        )
    )
    for owner, part, size in server.rows(_SIZES):
        is_large = owner in toasts or owner.startswith("pg_toast")
        found[toasts.get(owner, owner), "large values" if is_large else part] += size
    return found


def log_bytes(server: Server, begin: str) -> Counter[str]:
    """Return the bytes of the log since ``begin`` by table or index and kind of record."""
    names = dict(
        server.rows(
            "SELECT coalesce(c.relfilenode, 0), coalesce(owner.relname || ' (large)', c.relname)"
            " FROM pg_class c LEFT JOIN pg_class owner ON owner.reltoastrelid = c.oid"
            " OR owner.reltoastrelid = (SELECT indrelid FROM pg_index WHERE indexrelid = c.oid)"
        )
    )
    found: Counter[str] = Counter()
    for kind, record, blocks, size in server.rows(
        "SELECT resource_manager, record_type, substring(block_ref, 1, 60),"
        f" sum(record_length) FROM pg_get_wal_records_info_till_end_of_wal('{begin}')"
        " GROUP BY 1, 2, 3"
    ):
        relation = _RELATION.search(blocks or "")
        name = names.get(int(relation[2]), "others") if relation else "no table"
        found[f"{name}: {kind} {record}"] += int(size)
    return found


def statements(server: Server) -> list[tuple[int, float, str]]:
    """Return the statements by their time: calls, milliseconds, and the text."""
    return [
        (calls, ms, " ".join(text.split())[:100])
        for calls, ms, text in server.rows(
            "SELECT s.calls, s.total_exec_time, s.query FROM pg_stat_statements s"
            " JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()"
            " ORDER BY s.total_exec_time DESC"
        )
    ]


def breakdown(
    server: Server, before: Counter[tuple[str, str]], begin: str, pages: int
) -> str:
    """Return tables of what each page took since ``begin``, a position of the log."""
    calls = statements(server)
    grown = sizes(server)
    grown.subtract(before)
    rows = ((*name, f"{size / pages:.0f}") for name, size in grown.most_common(MOST))
    log = log_bytes(server, begin)
    lines = ((name, f"{size / pages:.0f}") for name, size in log.most_common(MOST))
    counted = (
        (f"{count / pages:.2f}", f"{ms / pages:.3f}", text)
        for count, ms, text in calls[:MOST]
    )
    return "\n\n".join(
        (
            table(("Table", "Part", "Bytes a page"), rows),
            table(("Log", "Bytes a page"), lines),
            table(("Calls a page", "Ms a page", "Statement"), counted),
        )
    )
