"""Crawl a site, export its pages to a file, and query the file with DuckDB.

python query.py URL
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import duckdb
from firecrawl import Firecrawl

SERVICE = os.environ.get("SERVICE", "http://127.0.0.1:3002")
KEY = os.environ["KEY"]
MAX_PAGES = 1000
FORMAT = "jsonl"  # or "parquet", if the service has its extra of that name
FIELDS = ("url", "statusCode", "title", "description", "tokenCount", "markdown")
FILE = Path(f"pages.{FORMAT}")
QUERIES = {
    "Pages by status": """
        SELECT statusCode, count(*) FROM pages GROUP BY statusCode ORDER BY statusCode""",
    "The longest pages": """
        SELECT title, tokenCount::int AS tokens FROM pages
        ORDER BY tokens DESC LIMIT 3""",
    "Pages without a description": """
        SELECT title FROM pages WHERE description IS NULL ORDER BY title""",
    "Years of warranty": r"""
        SELECT title, regexp_extract(markdown, 'lasts (\w+) years', 1) FROM pages
        WHERE markdown ILIKE '%warranty%' ORDER BY title""",
}


def export(job_id: str) -> None:
    """Write the pages of a crawl to ``FILE``. The service sends them while it reads."""
    query = urlencode({"format": FORMAT, "fields": ",".join(FIELDS)})
    url = f"{SERVICE}/v2/crawl/{job_id}/export?{query}"
    request = Request(url, headers={"Authorization": f"Bearer {KEY}"})
    with urlopen(request, timeout=60) as response, FILE.open("wb") as file:
        shutil.copyfileobj(response, file)


def main(url: str) -> None:
    client = Firecrawl(api_key=KEY, api_url=SERVICE)
    job = client.crawl(url, limit=MAX_PAGES, max_age=0)  # not from the cache
    if job.status != "completed":
        raise SystemExit(f"The crawl has ended as {job.status}.")
    for failed in client.get_crawl_errors(job.id).errors:
        print(f"{failed.url}: {failed.error}", file=sys.stderr)
    export(job.id)
    duckdb.execute(f"CREATE VIEW pages AS FROM '{FILE}'")
    for title, query in QUERIES.items():
        print(f"{title}:")
        for row in duckdb.execute(query).fetchall():
            print(" ", *row)


if __name__ == "__main__":
    main(sys.argv[1])
