"""What is compiled where there is a compiler; all else is in ``setup.cfg``."""

from __future__ import annotations

from setuptools import Extension, setup

PASSES = "scraper_service/formats/passes"
PARTS = "bodies nodes texts elements signs names blocks writing".split()


def extensions() -> list[Extension]:
    """Return none where it cannot be: the package does without, only slower."""
    try:
        import lxml  # noqa: PLC0415  # they need not be there
        from Cython.Build import cythonize  # noqa: PLC0415

        made: list[Extension] = cythonize(
            [
                Extension(
                    "scraper_service.formats.passes._compiled",
                    [f"{PASSES}/_compiled.pyx"],
                    include_dirs=lxml.get_include(),
                    depends=[f"{PASSES}/{name}.pxi" for name in PARTS],
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


setup(ext_modules=extensions())
