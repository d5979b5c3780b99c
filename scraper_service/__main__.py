"""The command ``scraper-service``, also as ``python -m scraper_service``."""

from __future__ import annotations

import atexit
import gc

# Net new objects before a garbage collection of the youngest generation, until the service
# or a job has started: imports make many objects and little garbage.
OBJECTS_AT_START = 500_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(OBJECTS_AT_START)
    atexit.register(gc.freeze)  # the end of the interpreter would collect everything
    from scraper_service.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
