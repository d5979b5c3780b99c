"""What the sources of a map have given so far, in bounded memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar

from attrs import frozen

from scraper_service.discovery.map_results import (
    ShapeT,
    answered_rows,
    merged_rows,
    object_row,
)
from scraper_service.items import KnownPage

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.discovery.map_results import PlaceT, Rows, Slice
    from scraper_service.options.jobs import MapOptions
    from spiders.base import PageSpider
    from spiders.sitemaps import SitemapReading

T = TypeVar("T")


@frozen(kw_only=True)
class MapCall:
    """Who asks for a map, and what for.

    ``known`` gives the pages that the team's crawls have found, in slices. ``shape``
    makes the JSON of an address; it has to be importable. ``deadline`` is that of
    :func:`time.monotonic`.
    """

    deadline: float
    team_id: str | None = None
    known: AsyncIterator[list[KnownPage]] | None = None
    shape: ShapeT = object_row
    call_id: str = "map"


class Gathered:
    """The rows of a map so far: at most twice as many as it may have, and a few files.

    More are merged, in the converter pool. ``last`` is then the place behind which no
    row can be of use, None as long as all can.
    """

    def __init__(self, spider: PageSpider, options: MapOptions, call: MapCall):
        self._pool = spider.pool
        self._options = options
        self._call = call
        self._slices: list[Slice] = []
        self._count = 0
        self.last: PlaceT | None = None

    async def add(self, rows: Rows | SitemapReading) -> None:
        """Take rows of one source."""
        self._slices += rows.slices
        self._count += rows.count
        if self._count < 2 * self._options.limit:
            return
        slices, self._slices, self._count = self._slices, [], 0
        merged = await self.run(merged_rows, slices, self._options)
        # Those of one place stay in their order: it adds them one after the other.
        self._slices = [*merged.slices, *self._slices]
        self._count += merged.count
        if merged.count == self._options.limit and not self._options.search:
            places = {self.last, merged.last} - {None}
            self.last = min(place for place in places if place is not None)

    async def answered(self) -> tuple[tuple[bytes, ...], int]:
        """Return the map's addresses in their order, as JSON, and their number."""
        return await self.run(answered_rows, self._slices, self._options)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Return what a function returns in the pool, however long that takes.

        Who waits has a deadline.
        """
        left_s = self._call.deadline - time.monotonic()
        return await self._pool.run(
            function,
            *args,
            timeout_s=max(1, left_s + 1),
            team_id=self._call.team_id,
        )
