"""From a page to data by a schema or a prompt, by rules alone.

``page.py`` is what is looked at, ``engine.py`` the way through a schema, ``results.py``
what comes back. Nothing is fetched and no model is asked.
"""

from scraper_service.content.structured_data.engine import extract
from scraper_service.content.structured_data.page import ExtractionPage
from scraper_service.content.structured_data.results import Extraction, Place

__all__ = ["Extraction", "ExtractionPage", "Place", "extract"]
