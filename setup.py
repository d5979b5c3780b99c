"""Names the packages and builds the optional compiled extension.

``setup.cfg`` has all other settings.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

PASSES = Path("scraper_service/content/passes")
#: The line of a compiled module between its imports and what is compiled.
COMPILED_FROM = "# The lines from here on are compiled.\n"
#: How all of it is compiled: without the C that pickles objects and describes functions to
#: inspect, which nothing uses and which would take a third of the time.
DIRECTIVES = (
    "# cython: language_level=3, boundscheck=False, wraparound=False,"
    " initializedcheck=False, cdivision=True, auto_pickle=False, binding=False\n"
)


class BuildCompiled(build_ext):
    """Writes and compiles the C of the extension.

    Other commands run this file too, and need no C. The package works without the extension,
    but more slowly: where Cython, lxml's headers or a compiler are missing, nothing is built.
    """

    def build_extension(self, ext: Extension) -> None:
        try:
            import Cython  # noqa: PLC0415  # both are optional
            import lxml  # noqa: PLC0415
            from Cython.Build import cythonize  # noqa: PLC0415

            ext.include_dirs += lxml.get_include()
            makers = f"Cython {Cython.__version__} for lxml {lxml.__version__}"
            # The checksum compiles anew what differs above the lines that are compiled.
            first = f"# By {makers}, of sources with the checksum {checksum()}\n"
            [made] = cythonize(Extension(ext.name, [joined_source(first)]))
            ext.sources = made.sources
        except Exception as error:
            print(f"The compiled extension is not built: {error!r}")
        else:
            super().build_extension(ext)


def joined_source(first_line: str) -> str:
    """Write all sources to one file, and return its path.

    An unchanged file stays untouched: Cython writes C again if the file is newer.
    """
    bases, modules = (
        [path.read_text(encoding="utf-8") for path in sorted(PASSES.glob(pattern))]
        for pattern in ("*.pyx", "*.py")
    )
    parts = [*bases, *(module.partition(COMPILED_FROM)[2] for module in modules)]
    text = first_line + DIRECTIVES + "\n\n".join(parts)
    file = Path("build/_compiled.pyx")
    file.parent.mkdir(exist_ok=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
    return str(file)


def checksum() -> int:
    """Return the checksum of the sources, which the package compares at start-up."""
    sources = sorted((*PASSES.glob("*.py"), *PASSES.glob("*.pyx")))
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


def project_urls() -> dict[str, str]:
    """Return pages of the repository whose workflow builds the package.

    Another clone has none: the sources do not name a host.
    """
    if "GITHUB_REPOSITORY" not in os.environ:
        return {}
    url = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    return {
        "Source": url,
        "Documentation": f"{url}/tree/main/docs",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }


SPIDERS = "scraper_service.spiders"
COMPILED = Extension(
    "scraper_service.content.passes._compiled",
    [],  # known when it is built
    define_macros=[("SOURCES_CHECKSUM", f"{checksum()}u")],
    # Symbols for a debugger would take a third of the time and four fifths of the file. -O3 of
    # many an interpreter takes a tenth longer, and no page was seen to be faster.
    extra_compile_args=["-g0", "-O2"],
    optional=True,
)
# An egg for scrapyd runs on any machine, so it has no compiled code.
setup(
    packages=[*find_packages(include=["scraper_service*"], exclude=[SPIDERS]), SPIDERS],
    package_dir={SPIDERS: "spiders"},
    ext_modules=[] if "bdist_egg" in sys.argv else [COMPILED],
    cmdclass={"build_ext": BuildCompiled},
    project_urls=project_urls(),
)
