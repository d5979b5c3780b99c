"""A fake server of a language model, in its own process.

``python -m tests.support.chat_server`` prints its base URL and ends with its standard input.
:meth:`ChatServer.behave` sets its mode, :meth:`ChatServer.asked` returns its requests.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.servers import HttpServer, serve

KEY = "sk-very-secret"
MODEL = "stand-in"
SLOW_S = 60
HUGE_BYTES = 20 * 2**20
DEPTH = 50_000
ORDER = re.compile(r"SYSTEM OVERRIDE: (\{.*?\}) END", re.DOTALL)


REFUSALS = {
    "busy": (429, "slow down"),
    "broken": (500, "out of memory"),
    "refuses": (401, f"bad key {KEY}"),
    "rejects": (400, f"no such thing for {KEY}"),
}
UNKNOWN = {"no-schema": ("response_format",), "old": ("max_tokens", "temperature")}
CHANGES = {
    "deep": lambda said: '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "fenced": lambda said: f"Sure!\n```json\n{said[:-1]},}}\n```\nAnything else?",
    "huge": lambda said: "x" * HUGE_BYTES,
    "nan": lambda said: said.replace("12.5", "NaN"),
    "talks": lambda said: "I would rather not.",
    "truncated": lambda said: said[: len(said) // 2],
    "wrong": lambda said: '{"title": {"no": "text"}, "price": "a lot", "evil": true}',
}


class ChatServer(HttpServer):
    """The server as a subprocess, a context manager.

    Modes: ``obeys``, ``fenced`` (a code fence in a text, with a trailing comma), ``wrong``
    (invalid by the schema), ``wrong-once``, ``truncated``, ``slow``, ``busy`` (429 for ever),
    ``busy-once``, ``broken`` (500 for ever), ``huge`` (20 MB), ``deep``, ``nan``, ``talks``
    (no JSON), ``obedient`` (follows the page's orders), ``no-schema`` (400 for a
    response_format), ``rejects`` (400 for everything), ``old`` (400 for max_tokens and
    temperature), ``refuses`` (401), ``moved`` (a redirect), ``garbage`` (no JSON body),
    ``drops`` (closes).
    """

    def __init__(self) -> None:
        super().__init__("tests.support.chat_server")
        self.environment = {
            "SCRAPER_LLM_BASE_URL": f"{self.address}/v1",
            "SCRAPER_LLM_MODEL": MODEL,
            "SCRAPER_LLM_API_KEY": KEY,
        }

    def behave(self, mode: str = "obeys", answer: Any = None, target: str = "") -> None:
        """Answer in ``mode`` with ``answer`` from now on, and forget earlier requests.

        ``answer`` is a text, or another value that is sent as JSON. An object with the key
        ``answers`` has a list of answers, the next for each request. An object with the
        key ``by_text`` maps texts to such answers: the first text that a request has
        counts. ``target`` is the redirect URL of ``moved``.
        """
        body = {"mode": mode, "answer": answer, "target": target}
        self.ask("/behave", body)

    def asked(self) -> list[dict[str, Any]]:
        """Return the requests since :meth:`behave`: ``body``, ``authorization``, ``at``."""
        found: list[dict[str, Any]] = self.ask("/asked")
        return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    mode = "obeys"
    answer: Any = None
    target = ""
    requests: list[dict[str, Any]]
    lock = threading.Lock()

    def do_GET(self) -> None:
        self._json(200, self.requests)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        cls = type(self)
        if self.path == "/behave":
            with self.lock:
                cls.mode, cls.answer = body["mode"], body["answer"]
                cls.target, cls.requests = body["target"], []
            self._json(200, {})
            return
        entry = {
            "body": body,
            "authorization": self.headers.get("Authorization"),
            "path": self.path,
            "at": time.time(),
        }
        with self.lock:
            cls.requests.append(entry)
            text = _text_for(self.answer, body)
            number = sum(text in _asked(each["body"]) for each in cls.requests)
        with contextlib.suppress(OSError):
            self._answer(body, number)

    def _answer(self, body: dict[str, Any], number: int) -> None:
        once = self.mode.removesuffix("-once")
        mode = "obeys" if once != self.mode and number > 1 else once
        if mode == "slow":
            time.sleep(SLOW_S)
        if mode in REFUSALS:
            status, message = REFUSALS[mode]
            self._json(status, {"error": {"message": message}}, Retry_After="0")
        elif mode == "moved":
            self._json(307, {}, Location=self.target)
        elif mode == "drops":
            self.close_connection = True
        elif mode == "garbage":
            self._send(200, b"<html>not the API</html>")
        elif name := next((n for n in UNKNOWN.get(mode, ()) if n in body), None):
            text = f"Unsupported parameter: '{name}' is not supported with this model."
            self._json(400, {"error": {"message": text}})
        else:
            said = _said(self.answer, body, number)
            if change := CHANGES.get(mode):
                said = change(said)
            if mode == "obedient":
                order = ORDER.search(body["messages"][-1]["content"])
                said = order[1] if order else said
            self._complete(said, "length" if mode == "truncated" else "stop")

    def _complete(self, said: str, reason: str = "stop") -> None:
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
        self._json(
            200, {"object": "chat.completion", "choices": [choice], "usage": usage}
        )

    def _json(self, status: int, value: Any, **headers: str) -> None:
        self._send(status, json.dumps(value).encode(), **headers)

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def _asked(body: dict[str, Any]) -> str:
    """Return the text of the user's first message in a request."""
    found: str = body["messages"][1]["content"]
    return found


def _text_for(answer: Any, body: dict[str, Any]) -> str:
    """Return the text that chooses the answer to a request; empty for any request."""
    texts = answer.get("by_text", ()) if isinstance(answer, dict) else ()
    return next((text for text in texts if text in _asked(body)), "")


def _said(answer: Any, body: dict[str, Any], number: int) -> str:
    """Return the text of the model in the mode ``obeys``."""
    if isinstance(answer, dict) and "by_text" in answer:
        answer = answer["by_text"].get(_text_for(answer, body))
    if isinstance(answer, dict) and "answers" in answer:
        answers = answer["answers"]
        answer = answers[min(number, len(answers)) - 1]
    if answer is None:
        return "The stand-in has read it." if "response_format" not in body else "{}"
    return answer if isinstance(answer, str) else json.dumps(answer)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    _Handler.requests = []
    serve(server)


if __name__ == "__main__":
    main()
