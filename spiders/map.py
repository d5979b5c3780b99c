"""List a site: ``scrapy crawl map -a url=https://example.org -O links.jsonl``."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from scraper_service.discovery.map_results import decoded_rows
from scraper_service.errors import MapTimedOut
from scraper_service.items import MapLink
from scraper_service.options.available import require_available
from scraper_service.options.job_arguments import map_options
from spiders.base import PageSpider
from spiders.finding import Finding
from spiders.gathered import MapCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scraper_service.items import MapFound
    from scraper_service.options.jobs import MapOptions


class MapSpider(PageSpider):
    """Sitemaps, the links of the start page, and what is known of a site.

    Arguments are those of
    :func:`scraper_service.options.job_arguments.map_options`, or ``asked``, a
    :class:`~scraper_service.options.jobs.MapOptions`. With the argument ``resident``
    it starts with nothing, and :meth:`find` is called.
    """

    name = "map"
    find_links = True
    found: MapFound | None = None

    def __init__(
        self,
        *args: Any,
        resident: bool = False,
        asked: MapOptions | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args)
        self.options = None if resident else asked or map_options(kwargs)
        if self.options is not None:
            require_available(self.options.scrape)

    async def start(self) -> AsyncIterator[MapLink]:
        """Yield the addresses found, none when resident."""
        if self.options is None:
            return
        time_s = self.options.scrape.deadline_ms / 1000
        deadline = time.monotonic() + time_s
        try:
            async with asyncio.timeout(time_s):
                self.found = await self.find(self.options, deadline=deadline)
        except TimeoutError:
            self.logger.error("%s", MapTimedOut())
            return
        for warning in self.found.warnings:
            self.logger.warning("%s", warning)
        for name, cause in self.found.failures:
            self.logger.warning("%s: %s", name, str(cause) or type(cause).__name__)
        for part in self.found.slices:
            for row in decoded_rows(part):
                yield MapLink(**row)

    async def find(self, options: MapOptions, **call: Any) -> MapFound:
        """Return the addresses of a site; what is under way ends with the caller.

        ``call`` are the fields of :class:`~spiders.gathered.MapCall`; who calls sees
        to its deadline.
        """
        return await Finding(self, options, MapCall(**call)).run()
