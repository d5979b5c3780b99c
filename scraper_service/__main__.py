"""``python -m scraper_service``: the command line."""

# Converter processes import this module again, and need nothing of it.
if __name__ == "__main__":
    from scraper_service.cli import main

    main()
