"""The one secret of the service, and the keys that are made of it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SECRET_BYTES = 32


def key_secret(data_dir: Path, setting: str = "") -> bytes:
    """Return what keys are hashed with: the setting, or a file made on first use."""
    if setting:
        return setting.encode()
    path = data_dir / "key.secret"
    data_dir.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    if not path.exists():
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
    return path.read_text().strip().encode()


def derived_key(secret: bytes, purpose: str) -> bytes:
    """Return the 32 bytes that stand for ``purpose`` and for nothing else."""
    return hmac.new(secret, purpose.encode(), hashlib.sha256).digest()
