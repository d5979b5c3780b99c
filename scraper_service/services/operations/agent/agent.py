"""An agent: in each round a language model chooses to search, map, read, or answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scraper_service.services.operations.agent.bounds import (
    PDF_PAGES,
    RESULTS,
    bounds_of,
    read_options,
)
from scraper_service.services.operations.agent.final_answer import FinalAnswer
from scraper_service.services.operations.agent.page_reader import PageReader
from scraper_service.services.operations.agent.run import AgentRun

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.crawling.pricing import Prices
    from scraper_service.options.extraction import AgentOptions
    from scraper_service.services.operations.agent.agent_writer import AgentWriter
    from scraper_service.services.operations.operations import Operation
    from scraper_service.services.operations.sources import Sources


class Agent:
    """Runs agents. A run costs credits, so :meth:`pages` counts credits, not pages."""

    def __init__(
        self,
        sources: Sources,
        pool: ConverterPool,
        prices: Prices,
        writer: AgentWriter,
        settings: BaseSettings,
    ):
        self._sources = sources
        self._pool = pool
        self._prices = prices
        self._writer = writer
        self._most_s = settings.getint("OPERATION_TIMEOUT_S")

    def pages(self, options: AgentOptions) -> int:
        """Return the most credits that a run may be charged."""
        bounds, prices = bounds_of(options), self._prices
        page = prices.most(read_options(options), PDF_PAGES)
        if options.schema is None:
            page += prices.reading
        look = max(prices.search(RESULTS), prices.map)
        most = bounds.pages * page + bounds.rounds * look
        return max(1, min(math.floor(options.max_credits), most))

    def price(self, _: AgentOptions) -> int:
        """Return the price of what :meth:`pages` counts."""
        return 1

    async def __call__(self, operation: Operation) -> None:
        """Run an operation with :class:`AgentOptions`."""
        reader = PageReader(operation, self._sources, self._pool, self._prices)
        answer = FinalAnswer(operation, self._pool, self._writer)
        run = AgentRun(
            operation, reader, answer, self._writer, self._prices, self._most_s
        )
        await run.go()
