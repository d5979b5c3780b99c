"""The machine's certificate authorities, in the database that Chromium reads on Linux."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CERTUTIL = "certutil"
INSTALL = "install it with `apt-get install libnss3-tools`"
DATABASE = Path(".pki/nssdb")  # below Chromium's HOME
IMPORT_S = 60.0
#: NSS syncs the disk for each certificate, 10 s in all; memory takes 1 s.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108   # its directory there is private

logger = logging.getLogger(__name__)


def why_missing() -> str | None:
    """Return why the browser trusts its own authorities only, None if it does not."""
    if shutil.which(CERTUTIL):
        return None
    return f"the program {CERTUTIL} is missing: {INSTALL}"


def trust_authorities(home: str, data_dir: Path) -> None:
    """Have a Chromium whose HOME is ``home`` trust the authorities of this machine.

    They are those that OpenSSL trusts (``SSL_CERT_FILE``, ``SSL_CERT_DIR``), as in a fetch
    without a browser. They are imported once, and kept in ``data_dir`` until they change.
    Where that fails, a warning is logged, and Chromium trusts its own authorities only.
    """
    found = sorted(set(_authorities()))
    if why_missing() or not found:
        return
    checksum = hashlib.sha256(b"".join(found)).hexdigest()[:16]
    kept = data_dir.absolute() / "authorities" / checksum
    try:
        if not kept.exists():
            _import(found, kept)
        shutil.copytree(kept, Path(home, DATABASE))
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("the browser does not know the machine's authorities: %s", error)


def _authorities() -> Iterator[bytes]:
    """Yield the certificates that OpenSSL trusts, in DER; some more than once."""
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    for folder in (paths.capath or "").split(os.pathsep):
        files += [
            each for each in Path(folder or "/nowhere").glob("*") if each.is_file()
        ]
    for file in files:
        try:
            text = file.read_text("ascii", "replace")
        except OSError:
            continue
        for part in text.split("-----BEGIN CERTIFICATE-----")[1:]:
            body = part.partition("-----END CERTIFICATE-----")[0]
            try:
                yield ssl.PEM_cert_to_DER_cert(
                    f"-----BEGIN CERTIFICATE-----{body}-----END CERTIFICATE-----"
                )
            except ValueError:
                continue


def _import(certificates: list[bytes], kept: Path) -> None:
    """Make the database ``kept`` of certificates in DER."""
    memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        made = Path(folder, "made")
        made.mkdir()
        _certutil("-N", "--empty-password", "-d", f"sql:{made}")
        commands = []
        for number, certificate in enumerate(certificates):
            file = Path(folder, f"{number}.der")
            file.write_bytes(certificate)
            commands.append(f"-A -n {number} -t C,, -d sql:{made} -i {file}\n")
        batch = Path(folder, "batch")
        batch.write_text("".join(commands))
        _certutil("-B", "-d", f"sql:{made}", "-i", str(batch))
        _keep(made, kept)


def _keep(made: Path, kept: Path) -> None:
    """Copy the database ``made`` to ``kept``, unless another process did so meanwhile."""
    kept.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        copy = shutil.copytree(made, Path(folder, "copy"))
        try:
            copy.rename(kept)
        except OSError:
            if not kept.exists():
                raise


def _certutil(*arguments: str) -> None:
    subprocess.run(  # noqa: S603  # NSS's own program, of the PATH
        (shutil.which(CERTUTIL) or CERTUTIL, *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=IMPORT_S,
        check=True,
    )
