"""Calls to the measured service, without proxies."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

KEY = "fc-bench-key"
HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str, body: Any = None, timeout_s: float = 60) -> bytes:
    """Return the response body of a GET, or of a POST with ``body`` as JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, HEADERS)
    with _opener.open(request, timeout=timeout_s) as found:
        text: bytes = found.read()
    return text


def call(url: str, body: Any = None) -> dict[str, Any]:
    """Return the JSON object of a response; see :func:`fetch`."""
    found: dict[str, Any] = json.loads(fetch(url, body))
    return found
