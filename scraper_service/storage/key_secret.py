"""The one secret of the service, and the keys that are made of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scraper_service.errors import SecretsUnreadable
from scraper_service.private import FILE, close_to_others, has_only, private_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.fernet import Fernet

SECRET_BYTES = 32
KEY_FILE = "key.secret"  # in DATA_DIR
# What lies in DATA_DIR, with what is added to the names.
OURS = ("jobs.sqlite", "jobs.lock", KEY_FILE, "artefacts", "runs", "blocklist.txt")


def key_secret(data_dir: Path, setting: str = "") -> bytes:
    """Return what keys are hashed with: the setting, or a file made on first use."""
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
            # A link, not a rename: of two processes that start, the first one wins.
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    close_to_others(path)
    return path.read_text().strip().encode()


def make_data_dir(path: Path) -> None:
    """Make ``DATA_DIR``, for nobody else to look into.

    One that has other things than ours in it keeps its mode.
    """
    if not path.exists() or has_only(path, OURS):
        private_folder(path)


def derived_key(secret: bytes, purpose: str) -> bytes:
    """Return the 32 bytes that stand for ``purpose`` and for nothing else."""
    return hmac.new(secret, purpose.encode(), hashlib.sha256).digest()


class Box:
    """Encrypts JSON values for one ``purpose``.

    ``secret`` returns that of the service; it is called on first use.
    """

    def __init__(self, secret: Callable[[], bytes], purpose: str):
        self._secret = secret
        self._purpose = purpose

    @cached_property
    def _fernet(self) -> Fernet:
        # Imported here: it takes a tenth of a second, and most commands need none.
        from cryptography.fernet import Fernet  # noqa: PLC0415

        key = derived_key(self._secret(), self._purpose)
        return Fernet(base64.urlsafe_b64encode(key))

    def seal(self, value: Any) -> bytes:
        """Return a JSON value encrypted."""
        return self._fernet.encrypt(json.dumps(value).encode())

    def open(self, sealed: bytes) -> Any:
        """Return a value again; raise :exc:`SecretsUnreadable`."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415

        try:
            return json.loads(self._fernet.decrypt(bytes(sealed)))
        except InvalidToken:
            raise SecretsUnreadable from None
