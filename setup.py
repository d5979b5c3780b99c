"""What is compiled where there is a compiler; all else is in ``setup.cfg``."""

from __future__ import annotations

import zlib
from pathlib import Path

from setuptools import Extension, setup

PASSES = "scraper_service/content/passes"
SOURCES = sorted(Path(PASSES).glob("*.p[xy][xi]"))


def extensions() -> list[Extension]:
    """Return none where it cannot be: the package does without, only slower."""
    try:
        import lxml  # noqa: PLC0415  # they need not be there
        from Cython.Build import cythonize  # noqa: PLC0415

        made: list[Extension] = cythonize(
            [
                Extension(
                    "scraper_service.content.passes._compiled",
                    [f"{PASSES}/_compiled.pyx"],
                    include_dirs=lxml.get_include(),
                    define_macros=[("SOURCES_CHECKSUM", f"{checksum()}u")],
                    depends=list(map(str, SOURCES)),
                )
            ],
            build_dir="build",
        )
    except Exception as error:
        print(f"Nothing is compiled: {error!r}")
        return []
    for extension in made:
        extension.optional = True  # Cython does not pass it on
    return made


def checksum() -> int:
    """Return what tells these sources from those of another day."""
    return zlib.crc32(b"".join(path.read_bytes() for path in SOURCES))


setup(ext_modules=extensions())
