"""Names the packages and builds the optional compiled extension.

``setup.cfg`` has all other settings.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

from setuptools import Extension, find_packages, setup

PASSES = Path("scraper_service/content/passes")
#: The sources of C, which have another form as modules of the same name.
BASES = sorted(PASSES.glob("*.pyx"))
#: The modules that are compiled behind them.
MODULES = sorted(
    path
    for path in PASSES.glob("*.py")
    if path.name != "__init__.py" and path.with_suffix(".pyx") not in BASES
)
#: The line of each module between its imports and what is compiled.
COMPILED_FROM = "# The lines from here on are compiled.\n"


def extensions() -> list[Extension]:
    """Return the extension; an empty list if Cython or lxml's headers are missing.

    The package works without the extension, but more slowly.
    """
    try:
        import lxml  # noqa: PLC0415  # both are optional
        from Cython.Build import cythonize  # noqa: PLC0415

        made: list[Extension] = cythonize(
            [
                Extension(
                    "scraper_service.content.passes._compiled",
                    [joined_source()],
                    include_dirs=lxml.get_include(),
                    define_macros=[("SOURCES_CHECKSUM", f"{checksum()}u")],
                    # Without symbols for a debugger, which take a third of the time and four
                    # fifths of the file.
                    extra_compile_args=["-g0"],
                )
            ],
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "initializedcheck": False,
                "cdivision": True,
            },
        )
    except Exception as error:
        print(f"The compiled extension is not built: {error!r}")
        return []
    for extension in made:
        extension.optional = True  # cythonize drops the option
    return made


def joined_source() -> str:
    """Write all sources to one file, and return its path."""
    bases = (path.read_text(encoding="utf-8") for path in BASES)
    modules = (path.read_text(encoding="utf-8") for path in MODULES)
    parts = [*bases, *(module.partition(COMPILED_FROM)[2] for module in modules)]
    file = Path("build/_compiled.pyx")
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n\n".join(parts), encoding="utf-8")
    return str(file)


def checksum() -> int:
    """Return the checksum of the sources, which the package compares at start-up."""
    sources = sorted((*PASSES.glob("*.py"), *PASSES.glob("*.pyx")))
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


SPIDERS = "scraper_service.spiders"
# An egg for scrapyd runs on any machine, so it has no compiled code.
setup(
    packages=[*find_packages(include=["scraper_service*"], exclude=[SPIDERS]), SPIDERS],
    package_dir={SPIDERS: "spiders"},
    ext_modules=[] if "bdist_egg" in sys.argv else extensions(),
)
