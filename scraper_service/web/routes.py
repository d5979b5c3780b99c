"""What only the web page calls, below ``/web/api``, beside the routes of ``/v2``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from scraper_service.api.responses import encode, iso
from scraper_service.api.version import Routes
from scraper_service.crawling.converter_pool.converter import RemoteFunction
from scraper_service.errors import (
    ConverterDied,
    InvalidOptions,
    Issue,
    NoConverter,
    ServiceUnavailable,
)
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.web.sessions import SessionChecks, WebSessions

MAX_TEXT = 2**20  # characters of a preview
PREVIEW_S = 20

markdown_preview = RemoteFunction("scraper_service.web.previews:markdown_preview")
html_preview = RemoteFunction("scraper_service.web.previews:html_preview")
explain = RemoteFunction("scraper_service.content.main_content.explain:explain")


class WebRoutes(Routes):
    """Signing in and out, previews of pages, and why blocks of a page were kept."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/session", self.session),
            ("POST", "/session", self.sign_in),
            ("DELETE", "/session", self.sign_out),
            ("POST", "/preview", self.preview),
            ("POST", "/blocks", self.blocks),
        )

    @property
    def _sessions(self) -> WebSessions:
        return cast("SessionChecks", self.checks).sessions

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

    async def sign_out(self, request: JsonRequest) -> bytes:
        """End the session of this browser."""
        self._sessions.check_origin(request)
        self._sessions.close(request)
        return encode({"success": True})

    async def preview(self, request: JsonRequest) -> bytes:
        """Return ``markdown`` or ``html`` as HTML without scripts, styles and images."""
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        name, text = await body.read(preview_values)
        function = markdown_preview if name == "markdown" else html_preview
        shown = await self._run(function, team.id, text[:MAX_TEXT])
        return encode({"success": True, "html": shown, "isCut": len(text) > MAX_TEXT})

    async def blocks(self, request: JsonRequest) -> bytes:
        """Return the blocks of ``html``, each with the reason why it was kept or not."""
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        html, url = await body.read(blocks_values)
        found = await self._run(explain, team.id, html, url)
        return encode({"success": True, **found})

    async def _run(self, function: Any, team_id: str, *args: str) -> Any:
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


def _texts(body: object, names: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of a body. Raises :exc:`InvalidOptions`."""
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
