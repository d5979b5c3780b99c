"""What the routes of each version of the API have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scraper_service.api.application import Edge
    from scraper_service.api.streams.streaming import Watchers
    from scraper_service.services.operation_calls import OperationCalls
    from scraper_service.services.service import ScraperService


class Api:
    """What the routes of a version need; each version is a subclass with its app."""

    def __init__(
        self,
        edge: Edge,
        service: ScraperService,
        watchers: Watchers,
        operations: OperationCalls,
    ):
        self.edge = edge
        self.operations = operations
        self.service = service
        self.watchers = watchers
        self.usage = service.usage
