"""Names of files for pages: from their addresses, good on every file system."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES = 120  # of a name in UTF-8; some encrypted file systems take 143
# Windows, "Naming Files, Paths, and Namespaces": not even with an ending.
RESERVED = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{device}{number}" for device in ("com", "lpt") for number in "0123456789¹²³"
}
_SUFFIX = re.compile(r"\.(html?|php|aspx?|md|markdown)$", re.IGNORECASE)


class PageNames:
    """Give the files of each page a name of their own.

    The same addresses in the same order get the same names. Two names differ on file
    systems that ignore case or the form of accents, too: an address whose name is taken
    gets a part of its hash at the end. ``taken`` are names not to be given.
    """

    def __init__(self, taken: tuple[str, ...] = ()):
        self._taken = {_folded(name) for name in taken}

    def name(self, url: str) -> str:
        """Return the name of a file of Markdown for the next page."""
        return f"{self.stem(url, ('.md',))}.md"

    def stem(self, url: str, endings: Iterable[str]) -> str:
        """Return the common part of the names of the files for the next page.

        With each of ``endings`` it is the name of a file, without any folder.
        """
        stem, digest = _stem(url), hashlib.sha256(url.encode("utf-8", "replace"))
        candidate, number = stem, 1
        endings = tuple(endings)
        while self._taken & (folded := {_folded(candidate + e) for e in endings}):
            again = f"-{number}" if number > 1 else ""
            candidate = f"{stem}-{digest.hexdigest()[:8]}{again}"
            number += 1
        self._taken |= folded
        return candidate


def _folded(name: str) -> bytes:
    # Eight bytes each: the names of a large crawl stay in memory.
    plain = unicodedata.normalize(
        "NFKC", unicodedata.normalize("NFKC", name).casefold()
    )
    return hashlib.blake2b(plain.encode(), digest_size=8).digest()


def _stem(url: str) -> str:
    """Return host, path and query with one dash for everything but letters and digits.

    A long one is cut, with a part of its hash at the end.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # of a site that was redirected to nonsense
        return "page"
    host = parts.netloc.rpartition("@")[2]
    path = _SUFFIX.sub("", unquote(parts.path, errors="replace"))
    query = unquote(parts.query, errors="replace")
    text = unicodedata.normalize("NFC", f"{host}/{path}/{query}")
    kept = "".join(c if _is_safe(c) else "-" for c in text)
    stem = re.sub(r"-*\.[.-]*|-+", _dot_or_dash, kept).strip(".-") or "page"
    if stem.partition(".")[0].casefold() in RESERVED:
        stem = f"_{stem}"
    data = stem.encode()
    if len(data) > MAX_BYTES:
        end = hashlib.sha256(url.encode("utf-8", "replace")).hexdigest()[:8]
        stem = f"{data[: MAX_BYTES - 9].decode(errors='ignore').rstrip('.-')}-{end}"
    return stem


def _dot_or_dash(found: re.Match[str]) -> str:
    # A dot stays between letters; dots and dashes in a row become one dash.
    return "." if found[0] == "." else "-"


def _is_safe(character: str) -> bool:
    # Letters, their accents, numbers: no signs, no spaces, nothing invisible.
    return character in "._" or unicodedata.category(character)[0] in "LMN"
