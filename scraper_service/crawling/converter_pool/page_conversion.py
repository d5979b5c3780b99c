"""The converter pool: all parsing of fetched bytes runs in its processes.

Processes can be killed, and have limits of time and memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from attrs import evolve

from scraper_service.content.markdown import MARKDOWN_CONVERTERS, NATIVE
from scraper_service.content.stored_pages import content_from_wire
from scraper_service.crawling.converter_pool.converter import (
    RemoteFunction,
    wrap_large,
)
from scraper_service.crawling.converter_pool.converter_queue import (
    LARGE_BYTES,
    EarlyResult,
)
from scraper_service.crawling.converter_pool.process_pool import (
    ArgsT,
    ProcessPool,
)
from scraper_service.discovery.sitemap import (
    UNREADABLE,
    SitemapContent,
    read_sitemap,
)
from scraper_service.errors import (
    ConverterDied,
    NoConverter,
    QueueFull,
)
from scraper_service.items import QUEUE_FULL, PageContent, PageError, PageSource
from scraper_service.shared_objects import Singletons
from scraper_service.storage.secrets import forget_secrets

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.discovery.sitemap import ChoiceT
    from scraper_service.options.scrape import ScrapeOptions


# A process is killed at its time-out. A PDF stops this much earlier, to return the pages
# that are done.
STOP_EARLY_S = 0.5
# Its modules take 0.1 s to import.
render = RemoteFunction("scraper_service.content.convert:render")


class ConverterPool(ProcessPool):
    """Converts pages and reads sitemaps in processes.

    ``timeout_s`` is the longest time of one conversion. ``markdown_converter`` is one
    of :data:`MARKDOWN_CONVERTERS`. See :class:`ProcessPool` for the other arguments.
    """

    _instances: ClassVar[Singletons[ConverterPool]] = Singletons()

    def __init__(
        self,
        processes: int,
        timeout_s: float,
        memory_mb: int,
        tasks: int,
        markdown_converter: str = NATIVE,
        queue_mb: int = 256,
    ) -> None:
        if markdown_converter not in MARKDOWN_CONVERTERS:
            known = " or ".join(MARKDOWN_CONVERTERS)
            message = f"SCRAPER_MARKDOWN_CONVERTER must be {known}, got {markdown_converter!r}"
            raise ValueError(message)
        super().__init__(processes, memory_mb, tasks, queue_mb)
        self._markdown_converter = markdown_converter
        self.timeout_s = timeout_s

    @classmethod
    def shared(cls, settings: BaseSettings) -> ConverterPool:
        """Return the pool of this process. The first call makes it."""

        def make() -> ConverterPool:
            forget_secrets()
            pool = cls(
                settings.getint("CONVERTER_PROCESSES") or os.cpu_count() or 1,
                settings.getfloat("CONVERTER_TIMEOUT_S"),
                settings.getint("CONVERTER_MEMORY_MB"),
                settings.getint("CONVERTER_TASKS"),
                settings["MARKDOWN_CONVERTER"],
                settings.getint("CONVERTER_QUEUE_MB"),
            )
            pool.prepare()
            return pool

        return cls._instances.get(cls, make)

    async def convert(
        self,
        source: PageSource,
        options: ScrapeOptions,
        timeout_s: float,
        team_id: str | None = None,
        job_id: str = "",
    ) -> PageContent:
        """Return the content of a page, or a content with an error.

        ``timeout_s`` is the remaining time of its caller. A small page without a job fails with the
        code :data:`QUEUE_FULL` if its team has too many bytes in the queue. A large one has waited
        for them before it was read.
        """
        limit = min(timeout_s, self.timeout_s)
        if limit <= 0:
            return _failure("SCRAPE_TIMEOUT", "No time was left to convert the page.")
        size = len(source.body)
        sent = evolve(source, body=wrap_large(source.body))
        may_refuse = not job_id and size <= LARGE_BYTES

        def make_args(limit_s: float) -> ArgsT:
            budget = max(limit_s - STOP_EARLY_S, limit_s / 2)
            return sent, options, budget, self._markdown_converter

        try:
            wire = await self.submit(
                render, make_args, size, limit, team_id, job_id, may_refuse=may_refuse
            )
        except TimeoutError as error:
            text = f"The page took longer than {limit:.1f} s to convert{_late(error)}."
            return _failure("SCRAPE_TIMEOUT", text)
        except MemoryError:
            return _failure(
                "SCRAPE_ALL_ENGINES_FAILED",
                "The page needs more memory than a conversion may take.",
            )
        except QueueFull as error:
            return _failure(QUEUE_FULL, str(error))
        except ConverterDied as error:
            return _failure("SCRAPE_ALL_ENGINES_FAILED", f"The page {error}.")
        if isinstance(wire, EarlyResult):
            return evolve(content_from_wire(*wire.result), search=wire.rest)
        return content_from_wire(*wire)

    async def read_sitemap(
        self,
        source: PageSource,
        timeout_s: float,
        choice: ChoiceT = list,
        team_id: str | None = None,
        job_id: str = "",
    ) -> SitemapContent:
        """Return the content of a sitemap, or a content with an error.

        ``choice`` makes the rows of the content in the process of the pool. It has to be importable.
        """
        limit, size = min(timeout_s, self.timeout_s), len(source.body)
        sent = evolve(source, body=wrap_large(source.body))
        try:
            return await self.submit(
                read_sitemap,
                lambda _limit_s: (sent, choice),
                size,
                limit,
                team_id,
                job_id,
            )
        except TimeoutError as error:
            text = f"The sitemap took longer than {limit:.1f} s to read{_late(error)}."
        except MemoryError:
            text = "The sitemap needs more memory than a conversion may take."
        except ConverterDied as error:
            text = f"The sitemap {error}."
        return SitemapContent(error=PageError(UNREADABLE, text))

    def close(self) -> None:
        """End all processes at once, and cancel running and waiting tasks."""
        self._instances.discard(self)
        super().close()


def _late(error: TimeoutError) -> str:
    return ": no converter was free" if isinstance(error, NoConverter) else ""


def _failure(code: str, message: str) -> PageContent:
    return PageContent(error=PageError(code, message))
