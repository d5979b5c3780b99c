"""Sessions of the browser, and named sessions: the cookies and storage that pages share."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal

from scraper_service.api.errors import PAGE_STATUSES
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    ChoiceParameter,
    PathParameter,
    TextParameter,
    parse_job_id,
)
from scraper_service.api.requests.browser_sessions import (
    SESSION,
    STEP,
    session_options,
    step_request,
)
from scraper_service.api.responses import PageJson, page_json, with_base
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import (
    TEXT,
    Id,
    Integer,
    JsonObject,
    Maybe,
    Shape,
    Success,
    Time,
    encode,
    member,
    success,
)
from scraper_service.api.streams.browser_sessions import (
    CONTROL_HEADERS,
    CONTROL_PAGE,
    VIEW_HEADERS,
    VIEW_PAGE,
    InputSocket,
    PictureStream,
    SessionSocket,
)
from scraper_service.api.streams.websocket import Handshake, is_wanted
from scraper_service.crawling.page_errors import SITE_BLOCKED
from scraper_service.errors import (
    DiskQuotaExceeded,
    InvalidParameter,
    JobNotFound,
    OptionUnavailable,
    OutOfCredits,
    ProfileInUse,
    QueueFull,
    ReplayUnavailable,
    SessionDestroyed,
    SessionElsewhere,
    SessionNotFound,
    SiteBlocked,
    Unauthorized,
)
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.scrape import MAX_NAME, profile_name
from scraper_service.services.browser_sessions.lifecycle import PageFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
        StepResult,
    )


MAX_TEXT = 2**20  # bytes of each of stdout and stderr
ACTIVE, DESTROYED = "active", "destroyed"
#: URLs of a session, which not all sessions and keys have.
URLS = ("cdp_url", "live_view_url", "interactive_live_view_url")


class SessionOpened(Success):
    """The response to the start of a session."""

    id: Id
    cdp_url: Maybe[str]
    live_view_url: Maybe[str]
    interactive_live_view_url: Maybe[str]
    expires_at: Time


class SessionJson(JsonObject):
    """A session of the list."""

    id: Id
    status: Literal["active", "destroyed"] = member(
        source=lambda record: ACTIVE if record.is_active else DESTROYED
    )
    cdp_url: str = member("Empty where it is not offered, and for keys that only read.")
    live_view_url: str = member("Empty where it is not offered.")
    interactive_live_view_url: Maybe[str]
    stream_web_view: bool = member(source="has_view")
    created_at: Time
    last_activity: Time = member(source="last_at")


class SessionEnded(Success):
    """The response to the end of a session."""

    status: Literal["destroyed"]
    session_duration_ms: int = member(source="duration_ms")
    credits_billed: int = member(source=lambda record: record.credits or 0)


class StepDone(JsonObject):
    """The response to a step."""

    success: bool = member(
        "False if the step failed; error has the reason.",
        source=lambda found: found.error is None,
    )
    output: Maybe[str] = member("The answer to a prompt.")
    result: Maybe[str] = member("The value of the last expression, as text or JSON.")
    stdout: str
    stderr: str
    truncated: Maybe[bool] = member(
        "True if stdout or stderr was cut at 1 MiB.", own=True
    )
    exit_code: Integer = member(
        "0; 1 after a failure, 124 after the timeout, 127 for a shell."
    )
    killed: bool = member("True after the timeout.", source="is_killed")
    url: str = member("The URL of the page after the step.", own=True)
    cdp_url: Maybe[str]
    live_view_url: Maybe[str]
    interactive_live_view_url: Maybe[str]
    actions: Maybe[dict[str, list[str | Annotated[Any, Shape(type="object")]]]] = (
        member(own=True)
    )
    data: Maybe[PageJson] = member(own=True)
    error: Maybe[str]


def step_json(found: StepResult, urls: Mapping[str, str | None]) -> bytes:
    """Return the response to a step, with the URLs of its session."""
    stdout, stderr = _cut(found.stdout), _cut(found.stderr)
    is_cut = found.is_cut or (stdout, stderr) != (found.stdout, found.stderr)
    facts = StepDone.of(
        found,
        stdout=stdout,
        stderr=stderr,
        truncated=True if is_cut else None,
        actions=None,
        data=None,
        **urls,
    )
    members = [encode(facts)[1:-1]]
    if found.actions is not None:
        members.append(b'"actions":' + found.actions)
    if found.page is not None:
        members.append(b'"data":' + page_json(found.page))
    return b"{%s}" % b",".join(members)


def _cut(text: str) -> str:
    """Return at most :data:`MAX_TEXT` bytes of a text."""
    if len(text) * 4 <= MAX_TEXT:
        return text
    return text.encode("utf-8", "replace")[:MAX_TEXT].decode("utf-8", "ignore")


_STATUS = ChoiceParameter("status", "Only sessions in this state.", (ACTIVE, DESTROYED))
_TOKEN = TextParameter("token", "The secret in the URL.")
_LISTED = success(sessions=list[SessionJson])
_GONE = (SessionNotFound, SessionDestroyed, SessionElsewhere)


class BrowserSessionRoutes(Routes):
    """Sessions of the browser."""

    @Route(
        ("POST /interact", "POST /browser"),
        returns=SessionOpened,
        body=SESSION,
        example={"url": "https://example.com", "ttl": 600},
        errors=(
            OptionUnavailable,
            SiteBlocked,
            OutOfCredits,
            DiskQuotaExceeded,
            QueueFull,
            ProfileInUse,
            *PAGE_STATUSES,
        ),
        needs=("browserSessions",),
    )
    async def start(self, request: JsonRequest) -> bytes:
        """Open a session: a page in a browser of its own."""
        team, body, _ = await self.checks.admit_work(request, Mode.SCRAPE)
        options = await body.read(session_options)
        if options.url and self.checks.sites.first_of([options.url]) is not None:
            raise SiteBlocked(SITE_BLOCKED)
        try:
            record = await self.services.browser_sessions.start(options, team)
        except PageFailed as failed:
            return self.write_failure(request, failed.error)
        return SessionOpened.to_json(record, **self._urls(request, record.id))

    def _done(self, request: JsonRequest, found: StepResult) -> bytes:
        answer = step_json(found, self._urls(request, found.session_id))
        return with_base(answer, self.base_url(request))

    def _urls(
        self, request: JsonRequest, session_id: str, scope: KeyScope = KeyScope.SCRAPE
    ) -> dict[str, str | None]:
        """Return the URLs of a session that are offered to a key with this scope."""
        tokens = self.services.browser_sessions.tokens(session_id)
        if not scope.includes(KeyScope.SCRAPE):  # with these it could act in the page
            tokens.pop("cdp", None)
            tokens.pop("input", None)
        base = f"{self.base_url(request)}/v2/interact/{session_id}"
        found: dict[str, str | None] = dict.fromkeys(URLS)
        if "cdp" in tokens:
            url = "ws" + base.removeprefix("http")
            found["cdp_url"] = f"{url}/cdp?token={tokens['cdp']}"
        if "view" in tokens:
            found["live_view_url"] = f"{base}/view?token={tokens['view']}"
        if "input" in tokens:
            url = f"{base}/control?token={tokens['input']}"
            found["interactive_live_view_url"] = url
        return found

    @Route(
        ("GET /interact/<session_id>/cdp", "GET /browser/<session_id>/cdp"),
        returns=TEXT,
        parameters=(_TOKEN,),
        errors=(Unauthorized, QueueFull),
        failures={101: TEXT},
        summary="Connect to the browser of a session, over a WebSocket.",
        is_own=True,
    )
    async def connect(self, request: JsonRequest, session_id: str) -> SessionSocket:
        """Connect to the browser of a session, over a WebSocket.

        Messages are those of the DevTools protocol: give the URL ``cdpUrl`` of a session to
        Playwright or Puppeteer.
        """
        session = self._by_token(request, session_id, "cdp")
        if not is_wanted(request):
            raise InvalidParameter("cdpUrl is for a WebSocket")
        handshake = Handshake(request)
        self.api.watchers.sessions.check(session.team)
        return SessionSocket(self.api, session, handshake)

    @Route(
        ("GET /interact/<session_id>/view", "GET /browser/<session_id>/view"),
        returns=TEXT,
        parameters=(_TOKEN,),
        media=("text/html",),
        errors=(Unauthorized,),
    )
    async def view(self, request: JsonRequest, session_id: str) -> bytes:
        """Return a web page with pictures of the page of a session."""
        session = self._by_token(request, session_id, "view")
        for name, value in VIEW_HEADERS.items():
            request.setHeader(name, value)
        return VIEW_PAGE.format(session.view_token).encode()

    @Route(
        (
            "GET /interact/<session_id>/view/pictures",
            "GET /browser/<session_id>/view/pictures",
        ),
        returns=TEXT,
        parameters=(_TOKEN,),
        media=("multipart/x-mixed-replace",),
        errors=(Unauthorized, QueueFull),
        is_own=True,
    )
    async def pictures(self, request: JsonRequest, session_id: str) -> PictureStream:
        """Return pictures of the page of a session, one after the other."""
        session = self._by_token(request, session_id, "view")
        self.api.watchers.sessions.check(session.team)
        return PictureStream(self.api, session)

    @Route(
        ("GET /interact/<session_id>/control", "GET /browser/<session_id>/control"),
        returns=TEXT,
        parameters=(_TOKEN,),
        media=("text/html",),
        errors=(Unauthorized,),
        is_own=True,
    )
    async def control(self, request: JsonRequest, session_id: str) -> bytes:
        """Return a web page with the page of a session, which takes mouse and keys."""
        self._by_token(request, session_id, "input")
        for name, value in CONTROL_HEADERS.items():
            request.setHeader(name, value)
        return CONTROL_PAGE.encode()

    @Route(
        (
            "GET /interact/<session_id>/control/socket",
            "GET /browser/<session_id>/control/socket",
        ),
        returns=TEXT,
        parameters=(_TOKEN,),
        errors=(Unauthorized, QueueFull),
        failures={101: TEXT},
        summary="Use the page of a session by hand, over a WebSocket.",
        is_own=True,
    )
    async def inputs(self, request: JsonRequest, session_id: str) -> InputSocket:
        """Use the page of a session by hand, over a WebSocket.

        Binary messages are pictures (JPEG) of the page. Messages of the caller are JSON with
        `action`: `move`, `down`, `up`, `wheel` with `x` and `y` (0 to 1, shares of the picture),
        `button`, `dx` and `dy` (pixels); `keydown`, `keyup` with `key`; `text` with `text`.
        """
        session = self._by_token(request, session_id, "input")
        if not is_wanted(request):
            raise InvalidParameter("This URL is for a WebSocket")
        handshake = Handshake(request)
        self.api.watchers.sessions.check(session.team)
        return InputSocket(self.api, session, handshake)

    def _by_token(
        self, request: JsonRequest, session_id: str, kind: str
    ) -> RunningSession:
        token = _TOKEN.read(request) or ""
        return self.services.browser_sessions.by_token(session_id, kind, token)

    @Route(("GET /interact", "GET /browser"), returns=_LISTED, parameters=(_STATUS,))
    async def sessions(self, request: JsonRequest) -> bytes:
        """Return the sessions of the team, the newest first, ended ones for 24 hours."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        status = _STATUS.read(request)
        found = await self.services.browser_sessions.list_sessions(
            team, None if status is None else status == ACTIVE
        )
        sessions = []
        for each in found:
            urls = self._urls(request, each.id, team.scope)
            urls |= {name: urls[name] or "" for name in ("cdp_url", "live_view_url")}
            sessions.append(SessionJson.of(each, **urls))
        return _LISTED.to_json(sessions=sessions)

    @Route(
        ("POST /interact/<session_id>/execute", "POST /browser/<session_id>/execute"),
        returns=StepDone,
        body=STEP,
        example={
            "actions": [{"type": "click", "selector": "#more"}],
            "formats": ["markdown"],
        },
        errors=(OptionUnavailable, DiskQuotaExceeded, *_GONE, 429),
        needs=("browserSessions",),
    )
    async def execute(self, request: JsonRequest, session_id: str) -> bytes:
        """Do one step in the page of a session.

        A step that fails is a response of status 200 with success false; the session goes on.
        """
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        step = await body.read(step_request)
        found = await self.services.browser_sessions.step(_id(session_id), step, team)
        return self._done(request, found)

    @Route(
        "POST /scrape/<scrape_id>/interact",
        returns=StepDone,
        body=STEP,
        example={"code": "agent-browser snapshot -i", "language": "bash"},
        errors=(
            OptionUnavailable,
            OutOfCredits,
            DiskQuotaExceeded,
            QueueFull,
            ProfileInUse,
            JobNotFound,
            ReplayUnavailable,
            *_GONE,
            *PAGE_STATUSES,
        ),
        needs=("browserSessions",),
    )
    async def execute_after(self, request: JsonRequest, scrape_id: str) -> bytes:
        """Do one step in the page of a scrape.

        The first call opens the page again, with headers, waits and actions of the scrape; further
        calls go on in the same session. It ends after 600 seconds, or 300 without a call.
        """
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        scrape_id = parse_job_id(scrape_id)
        step = await body.read(step_request)
        try:
            found = await self.services.browser_sessions.step_after(
                scrape_id, step, team
            )
        except PageFailed as failed:
            return self.write_failure(request, failed.error)
        return self._done(request, found)

    @Route(
        "DELETE /scrape/<scrape_id>/interact",
        returns=SessionEnded,
        errors=(SessionNotFound, SessionElsewhere),
    )
    async def end_after(self, request: JsonRequest, scrape_id: str) -> bytes:
        """End the session of a scrape. A second call returns the same figures."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return SessionEnded.to_json(
            await self.services.browser_sessions.end_after(
                parse_job_id(scrape_id), team
            )
        )

    @Route(
        ("DELETE /interact/<session_id>", "DELETE /browser/<session_id>"),
        returns=SessionEnded,
        errors=(SessionNotFound, SessionElsewhere),
    )
    async def end(self, request: JsonRequest, session_id: str) -> bytes:
        """End a session. A second call returns the same figures."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return SessionEnded.to_json(
            await self.services.browser_sessions.end(_id(session_id), team)
        )


def _id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise SessionNotFound from None


_NAME = PathParameter(
    "name",
    "The name of the session.",
    {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
)


class _Session(JsonObject):
    name: str
    cookies: int
    created_at: Time
    updated_at: Time


_NAMED = success(sessions=list[_Session])


class SessionRoutes(Routes):
    """The named sessions of the team: the cookies and storage that pages begin with."""

    @Route("GET /sessions", returns=_NAMED, is_own=True)
    async def sessions(self, request: JsonRequest) -> bytes:
        """Return the team's sessions, without their contents."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return _NAMED.to_json(sessions=await self.services.scraping.sessions(team))

    @Route(
        "DELETE /sessions/<path:name>",
        returns=Success,
        parameters=(_NAME,),
        errors=(JobNotFound,),
        is_own=True,
    )
    async def delete_session(self, request: JsonRequest, name: str) -> bytes:
        """Delete a session."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        await self.services.scraping.delete_session(_session_name(name), team)
        return Success.to_json()


def _session_name(text: str) -> str:
    """Return the name in a path; raise :exc:`InvalidParameter` for an invalid name."""
    try:
        return profile_name(text)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
