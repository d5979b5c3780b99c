"""The command ``scraper-service``, also as ``python -m scraper_service``.

Converter processes import this module again. They need no commands, so it is small.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from scraper_service.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
