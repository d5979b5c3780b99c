"""The secret of the service, and files and environment variables that others must not read.

Imports no Scrapy.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import stat
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scraper_service.errors import SecretsUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.fernet import Fernet


SECRET_BYTES = 32
KEY_FILE = "key.secret"  # in DATA_DIR
# Names in DATA_DIR; files may have suffixes.
OURS = (
    "jobs.sqlite",
    "jobs.lock",
    KEY_FILE,
    "artefacts",
    "uploads",
    "runs",
    "blocklist.txt",
)


def key_secret(data_dir: Path, setting: str = "") -> bytes:
    """Return the secret for hashing API keys: the setting, or a file made on first use."""
    if setting:
        return setting.encode()
    path = data_dir / KEY_FILE
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    if not path.exists():
        make_data_dir(data_dir)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link, not a rename: the first of two processes wins.
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    close_to_others(path)
    return path.read_text().strip().encode()


def make_data_dir(path: Path) -> None:
    """Create ``DATA_DIR`` for its owner only.

    A directory with foreign files keeps its mode.
    """
    if not path.exists() or all(
        entry.name.startswith(OURS) for entry in path.iterdir()
    ):
        private_folder(path)


def derive_key(secret: bytes, purpose: str) -> bytes:
    """Return the 32 bytes of the key for ``purpose``."""
    return hmac.new(secret, purpose.encode(), hashlib.sha256).digest()


def mark_of(secret: bytes) -> str:
    """Return what stands for a secret in backups and the database.

    Nobody can compute the secret from it. An empty secret has an empty mark.
    """
    return derive_key(secret, "backup").hex()[:16] if secret else ""


class Box:
    """Encrypts JSON values for one ``purpose``.

    ``secret`` returns the secret of the service. It is called on first use.
    """

    def __init__(self, secret: Callable[[], bytes], purpose: str):
        self._secret = secret
        self._purpose = purpose

    @cached_property
    def _fernet(self) -> Fernet:
        # Imported here: the import takes a tenth of a second.
        from cryptography.fernet import Fernet  # noqa: PLC0415

        key = derive_key(self._secret(), self._purpose)
        return Fernet(base64.urlsafe_b64encode(key))

    def seal(self, value: Any) -> bytes:
        """Return a JSON value encrypted."""
        return self._fernet.encrypt(json.dumps(value).encode())

    def open(self, sealed: bytes) -> Any:
        """Return the decrypted value. Raise :exc:`SecretsUnreadable` for another secret."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415

        try:
            return json.loads(self._fernet.decrypt(bytes(sealed)))
        except InvalidToken:
            raise SecretsUnreadable from None


# -- the environment -----------------------------------------------------------------

# Removed from the environment of converter processes.
_NAMES = (
    *("SCRAPER_API_KEYS", "SCRAPER_DATABASE_URL", "SCRAPER_KEY_SECRET"),
    *("SCRAPER_BRAVE_API_KEY", "SCRAPER_LLM_API_KEY", "SCRAPER_METRICS_KEY"),
    *("SCRAPER_NOTIFICATION_CHANNELS", "SCRAPER_PROXIES", "SCRAPER_SCRAPYD_NODES"),
    *("SCRAPER_SEARXNG_URL", "SCRAPER_SERPER_API_KEY"),
    *("SCRAPER_SMTP_URL", "SCRAPER_WEBHOOK_SECRETS", "SCRAPER_WEBHOOK_URL"),
    *("SCRAPYD_PASSWORD", "SCRAPYD_USERNAME"),
)


# The same, but they are read later: by the feeds of Scrapy when they store a file, and by the
# traces of a process that runs a job.
_OF_STORES = (
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AZURE_CLIENT_SECRET", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"),
    *("AZURE_STORAGE_MASTER_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"),
    *("AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_TOKEN"),
    *("GOOGLE_BEARER_TOKEN", "GOOGLE_SERVICE_ACCOUNT_KEY"),
)


def forget_secrets(*, of_stores: bool = False) -> None:
    """Remove secrets from the environment. The settings have them.

    ``of_stores`` removes also the credentials of object storage and of the collector of traces,
    which an :class:`~scraper_service.storage.files.blob_stores.ObjectStore` and the traces have
    read.
    """
    for name in (*_NAMES, *(_OF_STORES if of_stores else ())):
        os.environ.pop(name, None)


def public_environment() -> dict[str, str]:
    """Return the environment without secrets, for another process."""
    hidden = {*_NAMES, *_OF_STORES}
    return {key: value for key, value in os.environ.items() if key not in hidden}


# -- files and folders that only the user of this process can read -------------------

FILE = 0o600
FOLDER = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_file(path: Path) -> None:
    """Create a file if it is missing, and remove all rights of other users.

    Raises :exc:`OSError` if the file cannot be created.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, FILE))
    close_to_others(path)


def private_folder(path: Path) -> None:
    """Create a folder if it is missing, and remove all rights of other users.

    Raises :exc:`OSError` if the folder cannot be created.
    """
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    close_to_others(path)


def close_to_others(path: Path) -> None:
    """Remove the rights of group and others from a path that this user owns."""
    try:
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except OSError:
        return  # the path is gone, or its file system has no such rights


def is_older(path: Path, before: float) -> bool:
    """Return True for a file of before a Unix time. False if it is gone meanwhile."""
    try:
        return path.stat().st_mtime < before
    except FileNotFoundError:
        return False
