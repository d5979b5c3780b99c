"""The checks before each call: key, scope, rate, body, credits, blocked sites."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from scraper_service.api.http_connections import TrustedProxies, peer_address
from scraper_service.api.parameters import check_names
from scraper_service.api.request_body import MAX_BODY_BYTES, Body
from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.crawling.page_errors import SITE_BLOCKED
from scraper_service.errors import InvalidBody, ScopeMissing, SiteBlocked
from scraper_service.options.jobs import Caller
from scraper_service.options.limits import BlockedSites, Mode
from scraper_service.services.accounts import Accounts, Charges, Rates
from scraper_service.storage.accounts.audit import Actor
from scraper_service.storage.accounts.credits import Prices

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.accounts import Team


MAX_ADDRESS = 80  # characters


@frozen(kw_only=True)
class RequestChecks:
    """The checks before every request, in the order that docs/api/README.md fixes."""

    #: Finds the team of a key.
    accounts: Accounts
    #: Reads large bodies.
    pool: ConverterPool
    #: Counts calls per team and mode.
    rates: Rates
    #: Sites that no request may name.
    sites: BlockedSites
    #: Reserves credits.
    charges: Charges
    #: Prices of pages, maps and searches in credits.
    prices: Prices
    #: Reverse proxies, whose X-Forwarded-For names the caller.
    proxies: TrustedProxies = field(factory=TrustedProxies)
    #: True if the audit log is kept.
    is_audited: bool = False

    async def admit(self, request: JsonRequest, mode: Mode) -> tuple[Team, Body]:
        """Return the caller's team and the body.

        Raises :exc:`InvalidBody`, then :exc:`Unauthorized` or :exc:`ScopeMissing`, then
        :exc:`RateLimited`.
        """
        body = await self.read_body(request)
        team = await self.admit_file(request, mode)
        body.team_id = team.id
        return team, body

    async def read_body(self, request: JsonRequest) -> Body:
        """Return the body of a request. Raises :exc:`InvalidBody`."""
        raw = request.content.read(MAX_BODY_BYTES + 1) if request.content else b""
        if len(raw) > MAX_BODY_BYTES:  # a form may be longer
            raise InvalidBody(f"the body is larger than {MAX_BODY_BYTES} bytes")
        return await self.body_of(request, raw)

    async def body_of(
        self, request: JsonRequest, raw: bytes, team: Team | None = None
    ) -> Body:
        """Return a body whose bytes were read. Raises :exc:`InvalidBody`."""
        noted = partial(_note_caller, request)
        body = Body(raw, self.pool, noted, team.id if team else None)
        await body.check()
        return body

    async def admit_file(self, request: JsonRequest, mode: Mode) -> Team:
        """Return the caller's team. The body is a file and is not read yet.

        Raises :exc:`Unauthorized`, then :exc:`RateLimited`.
        """
        team = await self.recheck(request)
        note(request, team=team.id)
        await self.rates.count(team, mode)
        return team

    async def recheck(self, request: JsonRequest) -> Team:
        """Return the caller's team, if its key is valid and has the scope of the route.

        Streams call it again from time to time. Raises :exc:`Unauthorized`,
        :exc:`ScopeMissing`, and :exc:`InvalidParameter` for a name in the query that the route
        does not have.
        """
        team = await self.find_team(request)
        # Fails for a route that takes no key: it has no reason to be here.
        assert request.scope is not None
        if not team.scope.includes(request.scope):
            route = f"{request.method.decode()} {request.path.decode('latin-1')}"
            raise ScopeMissing(route, request.scope.value, team.scope.value)
        check_names(request)
        if not self.is_audited:
            return team
        peer = caller_address(request, self.proxies)
        return evolve(team, actor=Actor(peer, team.id, team.key_id, team.key_name))

    async def find_team(self, request: JsonRequest) -> Team:
        """Return the team of the key of a request. Raises :exc:`Unauthorized`."""
        return await self.accounts.team_of(request.header("Authorization"))

    async def admit_work(
        self, request: JsonRequest, mode: Mode, counted: str = ""
    ) -> tuple[Team, Body, int]:
        """Admit a call that costs credits; return also its number of pages.

        ``counted`` is the key of the body that gives this number: ``limit``, ``urls``,
        or empty for one page. Raises what :meth:`admit` raises, then
        :exc:`SiteBlocked`, then :exc:`OutOfCredits`.
        """
        team, body = await self.admit(request, mode)
        pages = await self._count_pages(team, body, counted)
        price = self.prices.page
        if mode in {Mode.MAP, Mode.SEARCH}:
            price = self.prices.map if mode is Mode.MAP else self.prices.search(1)
        await self.charges.require(team, pages * price)
        return team, body, pages

    async def _count_pages(self, team: Team, body: Body, counted: str) -> int:
        """Return how many pages a body requests, before its options are validated.

        Raises :exc:`SiteBlocked`. The body is not read where neither blocked sites
        nor credits matter.
        """
        if team.is_unlimited and not self.sites:
            return 1
        facts = await body.read_facts(counted, self.sites)
        if facts.blocked is not None:
            raise SiteBlocked(SITE_BLOCKED)
        return facts.pages


def caller_address(request: JsonRequest, proxies: TrustedProxies) -> str:
    """Return the IP address of a caller, which reverse proxies name.

    The last address in ``X-Forwarded-For`` that is no proxy's is the caller's. Callers can
    write others before it.
    """
    peer = getattr(request.getClientAddress(), "host", None) or "unknown"
    named = request.headers_of("X-Forwarded-For").split(",")
    while peer in proxies and named and (before := named.pop().strip()):
        try:
            peer = str(peer_address(before))
        except ValueError:  # not an address, or one with a port
            break
    return peer[:MAX_ADDRESS]


def note(request: JsonRequest, **facts: str | None) -> None:
    """Add facts to the access-log line of ``request``."""
    request.notes.update((k, v) for k, v in facts.items() if v)


def _note_caller(request: JsonRequest, read: object) -> None:
    options = read if isinstance(read, Caller) else getattr(read, "options", None)
    if isinstance(options, Caller):
        note(
            request,
            origin=options.origin,
            integration=options.integration,
            username=options.audit_username,
        )
