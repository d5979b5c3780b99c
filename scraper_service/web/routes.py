"""What only the web page calls, below ``/web/api``, and its sessions.

An API key is exchanged for a session cookie, which is accepted below ``/web`` only, never on
``/v1`` and ``/v2``. It contains the hash of the key, encrypted, so a revoked key ends its sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen

from scraper_service.api.openapi.route import Route
from scraper_service.api.request_checks import RequestChecks
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import encode, iso
from scraper_service.crawling.converter_pool.converter import RemoteFunction
from scraper_service.errors import (
    ConverterDied,
    InvalidOptions,
    Issue,
    NoConverter,
    SecretsUnreadable,
    ServiceUnavailable,
    Unauthorized,
)
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.selectors import MAX_SELECTOR, compile_selector
from scraper_service.storage.accounts.teams import PREFIX
from scraper_service.storage.secrets import Box, derive_key

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.services.accounts import Accounts, Team

COOKIE = "scraper_session"
TOKEN_HEADER = "X-CSRF-Token"  # noqa: S105  # a name
SESSION_S = 12 * 3600
LINK_S = 3600  # a sign-in link works for so long
READING = (b"GET", b"HEAD")


@frozen
class WebSession:
    """A session that has not expired."""

    #: The hash of its API key.
    digest: str
    #: Unix time of its end.
    until: float
    #: What state-changing calls must send in :data:`TOKEN_HEADER`.
    token: str


class WebSessions:
    """Makes and reads session cookies.

    ``secret`` is that of the service, so all processes with the same one accept a cookie.
    """

    def __init__(self, accounts: Accounts, secret: bytes, urls: PublicUrls):
        self.accounts = accounts
        self._urls = urls
        self._box = Box(lambda: secret, "web session")
        self._token_key = derive_key(secret, "web token")
        self._links: dict[str, tuple[str, float]] = {}  # token: key, until when

    def link(self, key: str) -> str:
        """Return a token that signs in with ``key`` once, within :data:`LINK_S`."""
        token = secrets.token_urlsafe(24)
        self._links[token] = (key, time.monotonic() + LINK_S)
        return token

    def key_of_link(self, token: str) -> str:
        """Return the key of a link, which ends the link. Raises :exc:`Unauthorized`."""
        key, until = self._links.pop(token, ("", 0.0))
        if time.monotonic() > until:
            raise Unauthorized(
                "This sign-in link was used before or has expired, or the service was started again. Enter an API key"
                " instead; `scraper-service keys create` makes one."
            )
        return key

    async def open(self, request: JsonRequest, key: str) -> WebSession:
        """Set the cookie of a new session. Raises :exc:`Unauthorized`."""
        digest = self.accounts.hash_of(f"Bearer {key}")
        await self.accounts.team_with(digest)
        until = time.time() + SESSION_S
        value = self._box.seal({"digest": digest, "until": until}).decode()
        self._set_cookie(request, value, SESSION_S)
        return WebSession(digest, until, self._token(value))

    def close(self, request: JsonRequest) -> None:
        """Delete the cookie."""
        self._set_cookie(request, "", 0)

    def find(self, request: JsonRequest) -> WebSession | None:
        """Return the session of a request, None without one and after its end."""
        value = (request.getCookie(COOKIE.encode()) or b"").decode("latin-1")
        if not value:
            return None
        try:
            facts = self._box.open(value.encode())
        except SecretsUnreadable:
            return None
        if facts["until"] < time.time():
            return None
        return WebSession(facts["digest"], facts["until"], self._token(value))

    async def team_of(self, request: JsonRequest) -> Team:
        """Return the team of the session of a request.

        Raises :exc:`Unauthorized` without a session, for a revoked key, for a call from
        a page of another site, and for a state-changing call without the token.
        """
        self.check_origin(request)
        if not self.accounts.enabled:
            return await self.accounts.team_of(None)
        session = self.find(request)
        if session is None:
            raise Unauthorized("Unauthorized: sign in with an API key")
        sent = request.header(TOKEN_HEADER) or ""
        is_ours = hmac.compare_digest(sent.encode(), session.token.encode())
        if request.method not in READING and not is_ours:
            raise Unauthorized(
                f"Unauthorized: the header {TOKEN_HEADER} must have the token of the session; sign in again"
            )
        return await self.accounts.team_with(session.digest)

    def check_origin(self, request: JsonRequest) -> None:
        """Raise :exc:`Unauthorized` for a call from a page of another site."""
        site = request.header("Sec-Fetch-Site")
        if site is not None:
            is_own = site in {"same-origin", "none"}
        else:  # browsers send it to https and to this machine only
            origin = request.header("Origin")
            own = {self._urls.base(request), f"http://{request.header('Host')}"}
            is_own = origin is None or origin in own
        if not is_own:
            raise Unauthorized("Unauthorized: the call is from a page of another site")

    def _token(self, value: str) -> str:
        return hmac.new(self._token_key, value.encode(), hashlib.sha256).hexdigest()

    def _set_cookie(self, request: JsonRequest, value: str, max_age: int) -> None:
        parts = [f"{COOKIE}={value}", "Path=/web", f"Max-Age={max_age}"]
        parts += ["HttpOnly", "SameSite=Strict"]
        if self._urls.base(request).startswith("https:"):
            parts.append("Secure")
        request.setHeader("Set-Cookie", "; ".join(parts))


@frozen(kw_only=True)
class SessionChecks(RequestChecks):
    """The checks of calls from the web page: a session stands for the key."""

    sessions: WebSessions

    async def find_team(self, request: JsonRequest) -> Team:
        return await self.sessions.team_of(request)


MAX_TEXT = 2**20  # characters of a preview
PREVIEW_S = 20

markdown_preview = RemoteFunction("scraper_service.web.previews:markdown_preview")
html_preview = RemoteFunction("scraper_service.web.previews:html_preview")
explain = RemoteFunction("scraper_service.content.main_content.reduction:explain")
selector_matches = RemoteFunction(
    "scraper_service.content.structured_data.selectors:selector_matches"
)


class WebRoutes(Routes):
    """Signing in, the account, previews of pages, and why blocks of a page were kept."""

    @property
    def _sessions(self) -> WebSessions:
        return cast("SessionChecks", self.checks).sessions

    @Route("GET /session", scope=None)
    async def session(self, request: JsonRequest) -> bytes:
        """Return whether the caller is signed in, and the token for its calls."""
        enabled, found = self._sessions.accounts.enabled, self._sessions.find(request)
        return encode(
            {
                "success": True,
                "needsKey": enabled,
                "signedIn": not enabled or found is not None,
                "token": found.token if found else "",
                "expiresAt": iso(found.until) if found else None,
            }
        )

    @Route("POST /session", scope=None)
    async def sign_in(self, request: JsonRequest) -> bytes:
        """Exchange ``key``, or the token ``link`` of a sign-in address, for a session."""
        self._sessions.check_origin(request)
        body = await self.checks.read_body(request)
        key, link = await body.read(sign_in_values)
        found = await self._sessions.open(
            request, self._sessions.key_of_link(link) if link else key
        )
        return encode(
            {"success": True, "token": found.token, "expiresAt": iso(found.until)}
        )

    @Route("DELETE /session", scope=None)
    async def sign_out(self, request: JsonRequest) -> bytes:
        """End the session of this browser."""
        self._sessions.check_origin(request)
        self._sessions.close(request)
        return encode({"success": True})

    @Route("GET /account")
    async def account(self, request: JsonRequest) -> bytes:
        """Return the caller's team, its limits, and its keys without their secrets.

        ``channels`` are the names that monitors may send messages to, and ``sendsMail`` is
        true with a mail server. ``lastUsedOn`` is the last day with charged credits, None without one.
        """
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        found, keys = await self._sessions.accounts.account(team)
        last_days: dict[str | None, int] = {}
        for used in await self.services.usage.read_used(team):
            last_days[used.key_id] = max(used.day, last_days.get(used.key_id, 0))
        limits = {mode.value: self.checks.rates.limit(team, mode) for mode in Mode}
        return encode(
            {
                "success": True,
                "team": {
                    "id": found.id,
                    "name": found.name,
                    "credits": found.credits,
                    "planCredits": found.plan_credits,
                    "maxConcurrency": found.concurrency,
                    "diskUsedBytes": found.disk_used,
                    "diskLimitBytes": self.services.usage.disk.limit(team),
                },
                "scope": team.scope,
                "channels": list(self.services.monitors.channels),
                "sendsMail": self.services.monitors.sends_mail,
                "callsPerMinute": {name: most or None for name, most in limits.items()},
                "keys": [
                    {
                        "name": key.name,
                        "key": f"{PREFIX}…{key.hint}",
                        "createdAt": iso(key.created_at.timestamp()),
                        "state": key.state,
                        "scope": key.scope,
                        "expiresAt": key.expires_at and iso(key.expires_at.timestamp()),
                        "isOwn": key.id == team.key_id,
                        "lastUsedOn": _date(last_days.get(key.id)),
                    }
                    for key in keys
                ],
            }
        )

    @Route("POST /preview", scope=KeyScope.READ)
    async def preview(self, request: JsonRequest) -> bytes:
        """Return ``markdown`` or ``html`` as HTML without scripts, styles and images."""
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        name, text = await body.read(preview_values)
        function = markdown_preview if name == "markdown" else html_preview
        shown = await self._run(function, team.id, text[:MAX_TEXT])
        return encode({"success": True, "html": shown, "isCut": len(text) > MAX_TEXT})

    @Route("POST /blocks", scope=KeyScope.READ)
    async def blocks(self, request: JsonRequest) -> bytes:
        """Return the blocks of ``html``, each with the reason why it was kept or not."""
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        html, url = await body.read(blocks_values)
        found = await self._run(explain, team.id, html, url)
        return encode({"success": True, **found})

    @Route("POST /matches", scope=KeyScope.READ)
    async def matches(self, request: JsonRequest) -> bytes:
        """Return what ``selector``, CSS or XPath, matches in ``html``."""
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        html, url, selector = await body.read(matches_values)
        [found] = await self._run(selector_matches, team.id, html, url, [selector])
        return encode({"success": True, **found})

    async def _run(self, function: Any, team_id: str, *args: object) -> Any:
        """Return the result of a function that runs in a converter process.

        Raises :exc:`InvalidOptions` for a page that takes too much time or memory.
        """
        try:
            return await self.checks.pool.run(
                function, *args, timeout_s=PREVIEW_S, team_id=team_id, may_refuse=True
            )
        except NoConverter:
            raise ServiceUnavailable("All converters are busy.") from None
        except (TimeoutError, MemoryError, ConverterDied):
            message = "the page takes too much time or memory to show; read its source"
            raise InvalidOptions([Issue("custom", (), message)]) from None


def _date(day: int | None) -> str | None:
    return None if day is None else (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def _texts(body: object, names: tuple[str, ...]) -> dict[str, str]:
    if not isinstance(body, dict):
        raise InvalidOptions([Issue("invalid_type", (), "Expected object")])
    issues = [
        Issue("invalid_type", (name,), f"Expected a text at {name}")
        if name in names
        else Issue("unrecognized_keys", (name,), f"Unknown key {name!r}")
        for name, value in body.items()
        if name not in names or not isinstance(value, str)
    ]
    if issues:
        raise InvalidOptions(issues)
    return body


def _one_of(body: object, names: tuple[str, ...]) -> tuple[str, str]:
    """Return name and text of the one key that a body has of ``names``."""
    found = _texts(body, names)
    if len(found) != 1:
        message = f"exactly one of {', '.join(names)} is expected"
        raise InvalidOptions([Issue("custom", (), message)])
    return next(iter(found.items()))


def sign_in_values(body: object) -> tuple[str, str]:
    """Return ``key`` and ``link`` of a body, one of them empty."""
    name, text = _one_of(body, ("key", "link"))
    return (text, "") if name == "key" else ("", text)


preview_values = partial(_one_of, names=("markdown", "html"))


def blocks_values(body: object) -> tuple[str, str]:
    """Return ``html`` and ``url`` of a body."""
    found = _texts(body, ("html", "url"))
    return found.get("html", ""), found.get("url", "")


def matches_values(body: object) -> tuple[str, str, str]:
    """Return ``html``, ``url`` and ``selector`` of a body; the selector is valid."""
    found = _texts(body, ("html", "url", "selector"))
    selector = found.get("selector", "")
    why = None
    if not 0 < len(selector.strip()) <= MAX_SELECTOR:
        why = f"selector must have 1 to {MAX_SELECTOR} characters"
    else:
        try:
            compile_selector(selector, is_base=True)
        except ValueError as error:
            why = str(error)
    if why is not None:
        raise InvalidOptions([Issue("custom", ("selector",), why)])
    return found.get("html", ""), found.get("url", ""), selector
