"""Workers beside the services of a test."""

from __future__ import annotations

import sqlalchemy as sa
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.conftest import KEY, Service
from tests.support.crash import Invariants, crawl_of, started
from tests.support.linked_site import named

KEYS = [KEY, *(f"fc-team-{n}" for n in range(3))]
NO_JOBS = {
    "SCRAPER_MAX_RUNNING_JOBS": "0",
    "SCRAPER_MAX_RUNNING_OPERATIONS": "0",
    "SCRAPER_MONITOR_CONCURRENCY": "0",
}
LEASE_S = 2


class Worker(Service):
    """``scraper-service worker`` with probes on a free port, like :class:`Service`."""

    subcommand = "worker"
    ready = "working as "


class Fleet:
    """One database with a service that runs no jobs, and workers."""

    def __init__(self, stack, url, folder, start_service, **settings):
        self._stack, self._folder = stack, folder
        self.url = url
        self._count = 0
        self.settings = {
            "SCRAPER_DATABASE_URL": url,
            "SCRAPER_KEY_SECRET": "the secret of all",
            "SCRAPER_ARTEFACTS": "inline",
            "SCRAPER_API_KEYS": ",".join(KEYS),
            "SCRAPER_LEASE_S": str(LEASE_S),
            **settings,
        }
        self.api = start_service(**{**self.settings, **NO_JOBS})

    def worker(self, kind=Worker, **settings):
        self._count += 1
        worker = kind(
            self._folder / f"worker{self._count}", **{**self.settings, **settings}
        )
        self._stack.callback(worker.stop)
        return worker

    def crawl(self, site, name, limit=10_000, key=KEY, **scrape):
        body = {
            "url": site.url(named(name).path(0)),
            "limit": limit,
            "sitemap": "skip",
            "scrapeOptions": {"maxAge": 0, **scrape},
        }
        return started(self.api.post("/v2/crawl", body, key=key))

    def watched(self, site, name):
        path = self.crawl(site, name)
        expected = crawl_of(name)
        return Invariants(path, expected, name=name, site=site, database=self.url)

    def rows(self, query, **values):
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return connection.execute(sa.text(query), values).all()

    def command(self, *words):
        """Run a command on the database; return what it prints."""
        secret = f"KEY_SECRET={self.settings['SCRAPER_KEY_SECRET']}"
        given = ("-s", f"DATABASE_URL={self.url}", "-s", secret, *words)
        done = CliRunner().invoke(main, given)
        assert done.exit_code == 0, done.output
        return done.stdout.strip()

    def health(self):
        return self.api.get("/health", key=None).json
