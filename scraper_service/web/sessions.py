"""Signing in to the web page: an API key is exchanged for a session cookie.

A cookie is accepted below ``/web`` only, never on ``/v1`` and ``/v2``. It holds the hash
of the key, encrypted, so a revoked key ends its sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.api.request_checks import RequestChecks
from scraper_service.errors import SecretsUnreadable, Unauthorized
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
