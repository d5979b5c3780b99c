"""An extension of Scrapy that takes a while to close."""

import asyncio
from pathlib import Path

from scrapy import signals

NAME = "closed"  # of a file in the current folder


class SlowClose:
    """Writes a file half a second after a spider was closed."""

    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        crawler.signals.connect(self.closed, signals.spider_closed)
        return self

    async def closed(self):
        await asyncio.sleep(0.5)
        Path(NAME).touch()  # noqa: ASYNC240  # an empty file
