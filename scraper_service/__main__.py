"""The command ``scraper-service``, also as ``python -m scraper_service``."""

from __future__ import annotations

import atexit
import gc

# Net new objects before a garbage collection of the youngest generation. Imports make many
# objects and little garbage, and a page makes few cycles; Python's default is 700.
OBJECTS_A_COLLECTION = 10_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(OBJECTS_A_COLLECTION)
    atexit.register(gc.freeze)  # the end of the interpreter would collect everything
    from scraper_service.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
