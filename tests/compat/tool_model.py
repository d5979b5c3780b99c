"""A stand-in for a chat-completions model that calls the tools which its user names.

``python -m tests.compat.tool_model`` prints its base URL and ends with its standard input. The
last message of the user is JSON, ``[[tool, arguments], ...]``: each answer calls the next tool,
the last one repeats what the tools returned.
"""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.servers import HttpServer, serve

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # of a function, as the API wants it


class ToolModel(HttpServer):
    """The server as a subprocess, a context manager."""

    def __init__(self) -> None:
        super().__init__("tests.compat.tool_model")
        self.base_url = f"{self.address}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, value = 200, _completion(body)
        except (ValueError, KeyError, StopIteration) as error:
            status, value = (
                400,
                {"error": {"message": f"{type(error).__name__}: {error}"}},
            )
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


def _completion(body: dict[str, Any]) -> dict[str, Any]:
    known = {_checked(each["function"]) for each in body["tools"]}
    messages = body["messages"]
    asked = next(m for m in reversed(messages) if m["role"] == "user")
    calls = json.loads(_text(asked["content"]))
    results = [_text(m["content"]) for m in messages if m["role"] == "tool"]
    message: dict[str, Any] = {"role": "assistant", "content": json.dumps(results)}
    if len(results) < len(calls):
        name, given = calls[len(results)]
        if name not in known:
            raise ValueError(f"no such tool: {name}")
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"id": f"call_{len(results)}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    reason = "tool_calls" if message["content"] is None else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _checked(function: dict[str, Any]) -> str:
    """Return the name of a function that the API would take. Raises :exc:`ValueError`."""
    name: str = function["name"]
    if not NAME.fullmatch(name) or len(function.get("description") or "") > 1024:
        raise ValueError(f"the function {name!r} has no valid name or description")
    if function["parameters"].get("type") != "object":
        raise ValueError(f"the parameters of {name} are no object")
    return name


def _text(content: Any) -> str:
    """Return the text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)


def main() -> None:
    serve(ThreadingHTTPServer(("127.0.0.1", 0), _Handler))


if __name__ == "__main__":
    main()
