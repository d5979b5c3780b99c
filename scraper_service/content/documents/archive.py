"""Opens zip archives and parses their XML, both with limits, as office files need."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from typing import Any
from urllib.parse import unquote

from lxml import etree

from scraper_service.content.decode import Unreadable
from scraper_service.items import PageError

MAX_MEMBERS = 20_000
MAX_MEMBER_BYTES = 128 * 2**20  # per file in the archive
MAX_TOTAL_BYTES = 384 * 2**20  # of all files read from the archive
MAX_XML_BYTES = 64 * 2**20  # lxml needs several times as much memory
MAX_DEPTH = 200  # nested elements

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # the start of office files before 2007
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)")


class Archive:
    """A zip archive in memory, never unpacked to a disk.

    ``kind`` names the file in messages.

    :raises Unreadable: for a damaged archive, and for an exceeded limit.
    """

    def __init__(self, body: bytes, kind: str):
        self._kind = kind
        self._left = MAX_TOTAL_BYTES
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(body))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as exc:
            raise self.unreadable("it is damaged") from exc
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            raise self.unreadable(f"it has over {MAX_MEMBERS} parts")
        self._infos = {info.filename: info for info in infos}

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Any:
        return iter(self._infos)

    def read(self, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
        """Return the bytes of a member, whatever size the archive claims.

        :raises Unreadable: for a missing, encrypted, damaged or too large member.
        """
        info = self._infos.get(name)
        if info is None:
            raise self.unreadable(f"its part {name[:100]!r} is missing")
        if info.flag_bits & 1:
            raise self.unreadable("it is encrypted with a password")
        limit = min(limit, self._left)
        try:
            with self._zip.open(info) as stream:
                data = stream.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError) as exc:
            raise self.unreadable("it is damaged") from exc
        except (NotImplementedError, RuntimeError, OSError) as exc:
            raise self.unreadable("it is packed in an unknown way") from exc
        if len(data) > limit:
            raise self.unreadable("it is too large when unpacked")
        self._left -= len(data)
        return data

    def check_parts(self) -> None:
        """Check the size of all parts for a library that reads without limits.

        :raises Unreadable: for a too large part, and for XML with a document type, which
            office files never have.
        """
        left = self._left
        for name in self._infos:
            if name.endswith((".xml", ".rels", ".bin")):
                data = self.read(name, MAX_XML_BYTES)
                if not name.endswith(".bin") and _DOCTYPE.search(data):
                    raise self.unreadable("it declares a document type")
        self._left = left

    def main_part(self, default: str) -> str:
        """Return the name of an OOXML file's main part."""
        parts = self.relations("").values()
        return next((t for kind, t, _ in parts if kind == "officeDocument"), default)

    def xml(self, name: str) -> Any:
        """Return the root element of an XML member."""
        root = parse_xml(self.read(name, MAX_XML_BYTES))
        if root is None:
            raise self.unreadable(f"its part {name[:100]!r} is no usable XML")
        return root

    def relations(self, name: str) -> dict[str, tuple[str, str, bool]]:
        """Return an OOXML part's relations as ``{id: (type, target, is external)}``.

        Internal targets are names of members (ECMA-376, part 2, 9.3).
        """
        folder, file = posixpath.split(name)
        path = posixpath.join(folder, "_rels", f"{file}.rels")
        if path not in self:
            return {}
        found = {}
        for relation in self.xml(path).iterfind("{*}Relationship"):
            target = relation.get("Target", "")
            external = relation.get("TargetMode") == "External"
            if not external:
                target = resolve_member(folder, target)
            kind = relation.get("Type", "").rsplit("/", 1)[-1]
            found[relation.get("Id", "")] = (kind, target, external)
        return found

    def unreadable(self, reason: str) -> Unreadable:
        """Return the error for a file that cannot be converted."""
        return unreadable(self._kind, reason)


def unreadable(kind: str, reason: str) -> Unreadable:
    """Return the error for a file of ``kind`` that cannot be converted."""
    return Unreadable(
        PageError(
            "SCRAPE_UNSUPPORTED_FILE_ERROR",
            f"The {kind} file cannot be converted: {reason}",
        )
    )


def resolve_member(folder: str, target: str) -> str:
    """Return the name of the member at ``target``, relative to ``folder``."""
    path = unquote(target.split("#", 1)[0])
    joined = path if path.startswith("/") else posixpath.join(folder, path)
    return posixpath.normpath(joined).lstrip("/")


def parse_xml(data: bytes, *, recover: bool = False) -> Any:
    """Return the root element, None for text that is no XML or nested too deeply.

    The parser fetches nothing and expands no entities. Without ``recover``, the
    document has to be well-formed, without a document type, and at most as deep as lxml
    allows.
    """
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=recover,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    if root is None or recover or root.getroottree().docinfo.internalDTD is None:
        return root
    return None


def local(element: Any) -> str:
    """Return an element's name without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str | None:
    """Return the attribute with this name in any namespace, or None."""
    value: str | None = element.get(name)
    if value is not None:
        return value
    ending = f"}}{name}"
    return next((v for k, v in element.attrib.items() if k.endswith(ending)), None)
