"""What only the web page calls, below ``/web/api``, beside the routes of ``/v2``."""

from __future__ import annotations

from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from scraper_service.api.openapi.route import Route
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import encode, iso
from scraper_service.crawling.converter_pool.converter import RemoteFunction
from scraper_service.errors import (
    ConverterDied,
    InvalidOptions,
    Issue,
    NoConverter,
    ServiceUnavailable,
)
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.selectors import MAX_SELECTOR, compile_selector
from scraper_service.storage.accounts.teams import PREFIX

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.web.sessions import SessionChecks, WebSessions

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
