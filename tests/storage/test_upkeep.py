"""The upkeep of a database: what one step cannot do does not keep others from theirs."""

from __future__ import annotations

import asyncio
from contextlib import closing

from scrapy.settings import Settings
from sqlalchemy import func, select, text

from scraper_service.services.upkeep import expire
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.links import Seed
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import host, job


def count(database, table):
    query = select(func.count()).select_from(table)
    return database.write_blocking(lambda c: c.scalar(query))


def test_a_step_that_fails_does_not_stop_the_others(tmp_path):
    settings = Settings()
    settings.setmodule("scraper_service.settings")
    settings.set("DATA_DIR", str(tmp_path), "cmdline")
    fail = "SELECT RAISE(ABORT, 'broken')"
    with closing(Database.shared(settings)) as database:
        database.write_blocking(job_rows.make_team, "team")
        seed = Seed("crawl", "http://a.example/", None, ())
        database.write_blocking(job_rows.insert_job, "team", seed, "{}", 2)
        for statement in (
            "UPDATE job SET state = 'completed', expires_at = 1",
            "INSERT INTO host (host, updated_at, next_at) VALUES ('a.example', 1, 1)",
            f"CREATE TRIGGER broken BEFORE DELETE ON host BEGIN {fail}; END",
        ):
            database.write_blocking(lambda c, s=statement: c.execute(text(s)))
        asyncio.run(expire(database, settings))
        assert (count(database, host), count(database, job)) == (1, 0)
