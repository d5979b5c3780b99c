"""Azurite, a server with the interface of Azure Blob Storage, in a subprocess.

``npm install -g azurite`` installs it; ``make test-deploy`` does so for its tests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import shutil
import subprocess
import tempfile
import urllib.request
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from tests.support.object_storage import HOST
from tools.bench.processes import STOP_TIMEOUT_S, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Those of every Azurite.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2023-11-03"
LISTENS = "Azurite Blob service successfully listens on "
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class AzuriteMissing(Exception):
    """Raised if Azurite is not installed."""


class AzureStorage(ServerProcess):
    """The server with an empty container, a context manager."""

    BUCKET = "pages"
    SECRET = KEY
    scheme = "az"

    def __init__(self) -> None:
        if shutil.which("azurite-blob") is None:
            raise AzuriteMissing("Azurite is not installed: npm install -g azurite")
        super().__init__()
        self.address = self.line(LISTENS).removeprefix(LISTENS).strip()
        self._call("PUT", self.BUCKET, restype="container")

    def _launch(self, environment: Mapping[str, str] | None, cwd: Path) -> Any:
        self._folder = tempfile.TemporaryDirectory()
        options = ("--inMemoryPersistence", "--skipApiVersionCheck", "--silent")
        self.command = (
            *("azurite-blob", "--blobHost", HOST, "--blobPort", "0", *options),
            "--disableTelemetry",
        )
        return subprocess.Popen(
            self.command,
            cwd=self._folder.name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """End the server, and delete what it has written."""
        code = super().stop(timeout_s)
        self._folder.cleanup()
        return code

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a service that uses the server."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"{self.address}/{ACCOUNT}",
        }

    def names(self) -> list[str]:
        """Return the names of all objects."""
        text = self._call("GET", self.BUCKET, comp="list", restype="container")
        return re.findall("<Name>(.*?)</Name>", text.decode())

    def data(self, name: str) -> bytes:
        """Return the bytes of an object."""
        return self._call("GET", f"{self.BUCKET}/{name}")

    def _call(self, method: str, path: str, **query: str) -> bytes:
        """Return the body of a response to a request with a shared key."""
        date = formatdate(usegmt=True)
        resource = f"/{ACCOUNT}/{ACCOUNT}/{path}"
        headers = {"x-ms-date": date, "x-ms-version": VERSION}
        lines = [f"{name}:{text}" for name, text in headers.items()]
        asked = [f"{name}:{text}" for name, text in sorted(query.items())]
        signed = "\n".join([method, *[""] * 11, *lines, resource, *asked])
        digest = hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)
        signature = base64.b64encode(digest).decode()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
        found = "&".join(f"{name}={text}" for name, text in query.items())
        url = f"{self.address}/{ACCOUNT}/{path}?{found}"
        request = urllib.request.Request(url, method=method, headers=headers)
        with _opener.open(request, timeout=60) as response:
            body: bytes = response.read()
            return body
