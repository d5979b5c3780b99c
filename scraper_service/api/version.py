"""One version of the API: its parts, and the base class of its routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from attrs import frozen

from scraper_service.api.application import RequestChecks
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import PublicUrls
from scraper_service.api.responses import PATHS
from scraper_service.api.streams.streaming import Watchers
from scraper_service.exports.job_exports import Exports
from scraper_service.services.browser_sessions.sessions import BrowserSessions
from scraper_service.services.jobs import TeamJobs
from scraper_service.services.monitoring.monitors import TeamMonitors
from scraper_service.services.scraping import Scraping
from scraper_service.services.usage import Usage
from scraper_service.storage.files.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.request_body import Body
    from scraper_service.options.crawl import CrawlOptions
    from scraper_service.options.limits import KeyScope
    from scraper_service.services.accounts import Team

PromptedT: TypeAlias = (
    "Callable[[TeamJobs, Body, CrawlOptions, Team],"
    " Awaitable[tuple[CrawlOptions, dict[str, Any]]]]"
)
#: Methods, path, scope and handler. Several methods are separated by spaces. The scope is
#: that of the keys that may call the route, None for a route without a key.
RouteT: TypeAlias = (
    "tuple[str, str, KeyScope | None, Callable[..., Coroutine[Any, Any, Any]]]"
)


def of_jobs(methods: str, end: str = "") -> tuple[str, ...]:
    """Return routes of crawls and of batches. ``end`` follows the path of a job."""
    return tuple(f"{methods} /{path}/<job_id>{end}" for path in PATHS.values())


@frozen(kw_only=True)
class Services:
    """The services that routes call."""

    scraping: Scraping
    jobs: TeamJobs
    browser_sessions: BrowserSessions
    exports: Exports
    usage: Usage
    monitors: TeamMonitors
    #: Files that wait to be parsed.
    uploads: Uploads
    #: Returns what this installation can do, as JSON values.
    capabilities: Callable[[], dict[str, Any]]


@frozen(kw_only=True)
class Api:
    """One version of the API: how it spells requests and responses."""

    #: 1 or 2.
    version: int
    #: The version's module ``requests``: from bodies to options.
    requests: Any
    #: The version's module ``responses``: from results to JSON.
    responses: Any
    checks: RequestChecks
    services: Services
    #: The open streams.
    watchers: Watchers
    #: The URL of this service in responses.
    urls: PublicUrls
    #: Completes the options of a crawl by its prompt, in a version that has prompts.
    #: Returns also members of the response.
    prompted: PromptedT | None = None


class Routes:
    """A group of routes: each is a method with the decorator :class:`Route`."""

    #: Errors of all routes of the group, as :class:`Route` has those of one.
    common_errors: ClassVar[tuple[type[Exception] | int, ...]] = ()
    #: True if the reference API has none of the routes.
    are_own: ClassVar[bool] = False

    def __init__(self, api: Api):
        self.api = api
        self.checks = api.checks
        self.services = api.services

    def routes(self) -> Iterable[RouteT]:
        """Yield the routes of this group: its methods with the decorator :class:`Route`."""
        for kind in reversed(type(self).__mro__):
            for name, method in vars(kind).items():
                if isinstance(route := getattr(method, "route", None), Route):
                    for methods, path in route.rows:
                        yield methods, path, route.scope, getattr(self, name)

    def base_url(self, request: JsonRequest) -> str:
        """Return the URL of this service as the caller reaches it."""
        return self.api.urls.base(request)

    def url_of(self, request: JsonRequest) -> str:
        """Return the absolute URL of a request, without its query."""
        return self.base_url(request) + request.path.decode("latin-1")
