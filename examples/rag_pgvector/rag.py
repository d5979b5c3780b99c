"""Index a site in PostgreSQL, and find the passages that answer a question.

python rag.py index URL
python rag.py ask QUESTION
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import zlib
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import psycopg
from firecrawl import Firecrawl

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = os.environ.get("SERVICE", "http://127.0.0.1:3002")
KEY = os.environ["KEY"]
DATABASE = os.environ.get("DATABASE", "postgresql://localhost/rag")
MAX_PAGES = 100
MAX_TOKENS = 100  # of a passage; 300 to 500 suit most models
BEST = 2  # passages for a question
DIMENSIONS = 1024  # of a vector; the number of your model


def hash_words(text: str) -> list[float]:
    """Return the counts of words by their hash, with length 1. It knows no synonyms."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w{4,}", text.lower()):
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1
    length = math.hypot(*vector) or 1
    return [value / length for value in vector]


embed = hash_words  # REPLACE THIS LINE by your model: text -> list of DIMENSIONS floats


def read_passages(scrape_id: str) -> Iterator[str]:
    """Yield the parts of a stored page. The service cuts between blocks and headings."""
    page = 1
    while page:
        query = urlencode({"maxTokens": MAX_TOKENS, "page": page})
        url = f"{SERVICE}/v2/scrape/{scrape_id}?{query}"
        request = Request(url, headers={"Authorization": f"Bearer {KEY}"})
        with urlopen(request, timeout=60) as response:
            data = json.load(response)["data"]
        yield data["markdown"]
        page = data["metadata"]["chunk"].get("nextPage", 0)


def index(connection: psycopg.Connection, site: str) -> None:
    """Crawl a site and replace the passages of its pages."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS passages (url text, number int, text text,"
        f" embedding vector({DIMENSIONS}), PRIMARY KEY (url, number))"
    )
    client = Firecrawl(api_key=KEY, api_url=SERVICE)
    job = client.crawl(site, limit=MAX_PAGES, max_age=0)  # not from the cache
    if job.status != "completed":
        raise SystemExit(f"The crawl has ended as {job.status}.")
    for failed in client.get_crawl_errors(job.id).errors:
        print(f"{failed.url}: {failed.error}", file=sys.stderr)
    pages = [page for page in job.data if page.metadata.status_code < 400]
    count = 0
    for page in pages:
        url = page.metadata.source_url
        connection.execute("DELETE FROM passages WHERE url = %s", (url,))
        for number, text in enumerate(read_passages(page.metadata.scrape_id), 1):
            row = (url, number, text, str(embed(text)))
            connection.execute("INSERT INTO passages VALUES (%s, %s, %s, %s)", row)
            count += 1
    print(f"{len(pages)} pages, {count} passages")


def ask(connection: psycopg.Connection, question: str) -> None:
    """Print the nearest passages by cosine distance."""
    query = (
        "SELECT url, text, 1 - (embedding <=> %(vector)s) FROM passages"
        " ORDER BY embedding <=> %(vector)s, url, number LIMIT %(best)s"
    )
    values = {"vector": str(embed(question)), "best": BEST}
    for url, text, score in connection.execute(query, values):
        print(f"{score:.2f} {url}\n  {' '.join(text.split())}")


if __name__ == "__main__":
    command = {"index": index, "ask": ask}[sys.argv[1]]
    with psycopg.connect(DATABASE) as connection:
        command(connection, sys.argv[2])
