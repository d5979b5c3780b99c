"""What a sentence asks of a crawl, by rules over its words: pure, no model, no network.

``reading.py`` takes numbers, switches and topics out of the sentence, ``places.py`` finds
where on the site a topic lives, ``vocabulary.py`` has the words of both.
"""

from scraper_service.discovery.crawl_prompt.entry import Derived, derived
from scraper_service.discovery.crawl_prompt.numbers import MAX_PAGES

__all__ = ["MAX_PAGES", "Derived", "derived"]
