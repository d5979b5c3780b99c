"""A server that speaks the chat-completions protocol, hosted or on the same machine.

Its address is the operator's, so the rule about where pages may come from does not hold
for it. Redirects are not followed, answers are bounded; the key is in no log.
"""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import time
from typing import TYPE_CHECKING, Any

import aiohttp

from scraper_service.llm.model import ModelError

if TYPE_CHECKING:
    from scraper_service.llm.prompts import MessageT

logger = logging.getLogger(__name__)

PATH = "/chat/completions"
MAX_ANSWER_BYTES = 2**20
MAX_REFUSAL_BYTES = 4096  # read of what is no answer
ATTEMPTS = 3
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0  # that a server may ask for
CONNECT_S = 10.0
REST_S = 10.0  # after a server could not be reached, before it is asked again
MAX_SCHEMAS = 1000  # that are remembered as too much for the server

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# Members of a request that some servers or models refuse, and what to send instead.
_OPTIONAL = {"max_tokens": "max_completion_tokens", "temperature": None}


class TimedOut(ModelError):
    """A model was asked and did not answer in time: it may have used its tokens."""


class _Again(Exception):
    """A request may be repeated after ``pause_s``, None where the server named none."""

    def __init__(self, reason: str, pause_s: float | None = None):
        self.reason = reason
        self.pause_s = pause_s


class _Refused(Exception):
    """A server does not take a request as it is; ``text`` says why."""

    def __init__(self, text: str):
        self.text = text


class ChatServer:
    """One server and one model on it; ``concurrency`` requests at once, each for at most ``timeout_s``."""

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str,
        *,
        answer_tokens: int,
        concurrency: int,
        timeout_s: float,
    ):
        self.model = model
        self.answer_tokens = answer_tokens
        base = base_url.rstrip("/")
        self._url = base if base.endswith(PATH) else base + PATH
        self._key = key
        self._headers = {"Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(concurrency)
        self._instead: dict[str, str | None] = {}  # of _OPTIONAL, what was refused
        self._by_prompt: dict[str, None] = {}  # names of schemas that were refused
        self._rests_until = 0.0

    async def complete(
        self,
        messages: list[MessageT],
        schema: dict[str, Any] | None,
        name: str,
        *,
        strict: bool,
        deadline: float,
    ) -> bytes:
        """Return the body of the answer to ``messages``, as it came.

        ``schema`` is what the answer has to be, ``name`` stands for it; a server that
        does not know schemas is asked by the messages alone. ``deadline`` is a time of
        :func:`time.monotonic`. Raises :exc:`ModelError`.
        """
        for _ in range(2 + len(_OPTIONAL)):
            body = self._request(messages, schema, name, strict=strict)
            try:
                return await self._repeated(body, deadline)
            except _Refused as refused:
                if not self._adapt(refused.text.lower(), body, name):
                    self._log_refusal(refused.text)
                    raise ModelError("its server refused the request") from None
        raise ModelError("its server refused the request")

    def _log_refusal(self, text: str) -> None:
        """Log what a server says, which may repeat the key."""
        if self._key:
            text = text.replace(self._key, "...")
        logger.warning("the model's server refused: %r", text[:300])

    def _request(
        self,
        messages: list[MessageT],
        schema: dict[str, Any] | None,
        name: str,
        *,
        strict: bool,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": messages}
        for key, value in (("max_tokens", self.answer_tokens), ("temperature", 0)):
            instead = self._instead.get(key, key)
            if instead is not None:
                body[instead] = value
        if schema is not None and name not in self._by_prompt:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema, "strict": strict},
            }
        return body

    def _adapt(self, text: str, body: dict[str, Any], name: str) -> bool:
        """Remember what a server does not take; False if there is nothing to leave out."""
        for key, instead in _OPTIONAL.items():
            if key in body and key in text:
                self._instead[key] = instead
                return True
        if "response_format" not in body:
            return False
        if len(self._by_prompt) >= MAX_SCHEMAS:
            self._by_prompt.clear()
        self._by_prompt[name] = None
        return True

    async def _repeated(self, body: dict[str, Any], deadline: float) -> bytes:
        for attempt in range(ATTEMPTS):
            if time.monotonic() < self._rests_until:
                raise ModelError("its server does not answer")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ModelError("no time was left for it")
            try:
                async with asyncio.timeout(left), self._places:
                    return await self._post(body)
            except TimeoutError:
                raise TimedOut("it took too long") from None
            except _Again as again:
                pause_s = again.pause_s
                if pause_s is None:
                    pause_s = FIRST_PAUSE_S * 2**attempt * (1 + random.random() / 4)  # noqa: S311
                is_last = attempt == ATTEMPTS - 1
                if is_last or time.monotonic() + pause_s >= deadline:
                    raise ModelError(again.reason) from None
                await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _post(self, body: dict[str, Any]) -> bytes:
        limit = aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=CONNECT_S)
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=limit, cookie_jar=aiohttp.DummyCookieJar()
                ) as session,
                session.post(
                    self._url, json=body, headers=self._headers, allow_redirects=False
                ) as response,
            ):
                return await self._read(response)
        except TimeoutError:
            raise TimedOut(f"it took longer than {self._timeout_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            logger.warning("the model's server cannot be reached: %s", error)
            self._rests_until = time.monotonic() + REST_S
            raise ModelError("its server cannot be reached") from None
        except aiohttp.ClientError as error:
            raise _Again(f"its server broke off ({type(error).__name__})") from None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        status = response.status
        most = MAX_ANSWER_BYTES if status == 200 else MAX_REFUSAL_BYTES
        body = bytearray()
        async for chunk in response.content.iter_chunked(64 * 1024):
            body += chunk
            if len(body) > most:
                if status == 200:
                    raise ModelError(f"its answer has more than {most} bytes")
                break
        if status == 200:
            return bytes(body)
        if status in _AGAIN:
            pause_s = _retry_after(response.headers.get("Retry-After"))
            raise _Again(f"its server answered with status {status}", pause_s)
        if status in {400, 422}:
            raise _Refused(body[:MAX_REFUSAL_BYTES].decode(errors="replace"))
        raise ModelError(f"its server answered with status {status}")


def _retry_after(value: str | None) -> float | None:
    """Return the seconds that a header asks for; None for none, or no sense."""
    if value is None:
        return None
    try:
        wait_s = float(value)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        wait_s = moment.timestamp() - time.time()
    return min(max(wait_s, 0.0), LONGEST_PAUSE_S) if wait_s == wait_s else None  # noqa: PLR0124
