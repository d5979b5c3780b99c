"""A server with the interface of S3, in a subprocess."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

from tests.support.servers import HttpServer

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
HOST = "127.0.0.4"  # which no test allows pages to come from
SECRET = "secret-of-the-store"


class ObjectStorage(HttpServer):
    """The server with an empty bucket."""

    BUCKET = "pages"
    SECRET = SECRET
    scheme = "s3"

    def __init__(self):
        super().__init__(__name__)
        self.call("PUT", self.BUCKET)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a service that uses the server."""
        return {
            "AWS_ACCESS_KEY_ID": "id-of-the-store",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.address,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def call(self, method: str, path: str) -> bytes:
        """Return the body of a response."""
        request = urllib.request.Request(self.url(f"/{path}"), method=method)
        scope = (
            "id/20260101/us-east-1/s3/aws4_request"  # the server checks no signature
        )
        request.add_header("Authorization", f"AWS4-HMAC-SHA256 Credential={scope}")
        with _opener.open(request, timeout=60) as response:
            return response.read()

    def names(self) -> list[str]:
        """Return the names of all objects."""
        text = self.call("GET", f"{self.BUCKET}?list-type=2").decode()
        return re.findall("<Key>(.*?)</Key>", text)

    def data(self, name: str) -> bytes:
        """Return the bytes of an object."""
        return self.call("GET", f"{self.BUCKET}/{name}")


class GoogleStorage(ObjectStorage):
    """The same server for the client of Google Cloud Storage.

    The client uses the XML interface, which is that of S3 but for the signature of requests.
    """

    scheme = "gs"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a service that uses the server."""
        return {"GOOGLE_BASE_URL": self.address, "GOOGLE_BEARER_TOKEN": SECRET}


if __name__ == "__main__":
    import logging

    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(HOST, 0, application, threaded=True)
    print(f"http://{HOST}:{server.port}", flush=True)
    server.serve_forever()
