"""Names of the fake web, for processes that have this folder in their PYTHONPATH.

``FAKE_NAMES`` is such as ``a.example=127.0.0.2 b.example=127.0.0.3``; all other names are
looked up as ever.
"""

import os
import socket

_known = dict(entry.split("=") for entry in os.environ.get("FAKE_NAMES", "").split())
_real = socket.getaddrinfo


def _getaddrinfo(host, *arguments, **options):
    return _real(_known.get(host, host), *arguments, **options)


socket.getaddrinfo = _getaddrinfo
