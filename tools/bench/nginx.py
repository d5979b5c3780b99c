"""A site of :mod:`tools.bench.linked` served by nginx on 127.0.0.2.

``python -m tools.bench.nginx --linked N --source DIR --site NAME`` prints its origin, and
stops on SIGTERM. nginx takes less of the machine than :mod:`tools.bench.static`, which the
crawls would share with it.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tools.bench import linked

HOST = "127.0.0.2"
START_S = 10.0
POLL_S = 0.02
INDEX = "index.html"  # the file of the path that ends with a slash
CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    types {{ }}
    default_type "text/html; charset=utf-8";
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {host}:{port} backlog=1024;
        root {folder}/site;
        index index.html;
    }}
}}
"""


def is_installed() -> bool:
    """Return True if nginx is installed."""
    return shutil.which("nginx") is not None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _write(pages: dict[str, bytes], folder: Path) -> None:
    for path, body in pages.items():
        file = folder / (path[1:] + (INDEX if path.endswith("/") else ""))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


def _wait_for(port: int) -> None:
    """Return when the port accepts connections. Raises :exc:`OSError` if it does not."""
    end = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection((HOST, port), START_S).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)
        else:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--linked", type=int, required=True, metavar="N")
    parser.add_argument("--source", default="", help="directory or archive of pages")
    parser.add_argument("--site", choices=linked.SITES, default="relinked")
    options = parser.parse_args()
    port = _free_port()
    origin = f"http://{HOST}:{port}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # as root, nginx serves as another user
        pages = linked.site(options.source, options.linked, origin, options.site)
        _write(pages, folder / "site")
        file = folder / "nginx.conf"
        file.write_text(CONFIGURATION.format(folder=folder, host=HOST, port=port))
        server = subprocess.Popen(["nginx", "-p", name, "-c", str(file)])
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        _wait_for(port)
        print(origin, flush=True)
        server.wait()


if __name__ == "__main__":
    main()
