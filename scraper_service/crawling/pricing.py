"""Prices of pages and calls in credits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.items import PageContent
    from scraper_service.options.scrape import ScrapeOptions

RESULTS_A_BLOCK = 10  # search results per price


class Prices:
    """The prices of the settings ``CREDITS_...``."""

    def __init__(self, settings: BaseSettings):
        self.map = settings.getint("CREDITS_PER_MAP")
        self.extract_page = settings.getint("CREDITS_PER_EXTRACT_PAGE")
        self._search = settings.getint("CREDITS_PER_SEARCH")
        #: The price of a page without surcharges.
        self.page = settings.getint("CREDITS_PER_PAGE")
        #: The price of a page that has not changed since an earlier job.
        self.unchanged = settings.getint("CREDITS_UNCHANGED")
        self._pdf_page = settings.getint("CREDITS_PER_PDF_PAGE")
        self._stealth = settings.getint("CREDITS_STEALTH")
        #: The surcharge of a page that a language model reads.
        self.reading = settings.getint("CREDITS_JSON")
        self._zero_retention = settings.getint("CREDITS_ZERO_RETENTION")

    def search(self, results: int) -> int:
        """Return the price of a list of search results without their pages."""
        return self._search * -(-results // RESULTS_A_BLOCK)

    def of(
        self, content: PageContent, options: ScrapeOptions, proxy: str = "basic"
    ) -> int:
        """Return the price of a delivered page. Failed pages are free.

        ``proxy`` is the kind of the proxy.
        """
        count = content.num_pages
        price = self.page if count is None else self._pdf_page * count
        stealth = self._stealth if proxy == "stealth" else 0
        return price + stealth + self._extra(options)

    def usual(self, options: ScrapeOptions) -> int:
        """Return the usual price of a page with ``options``. PDF files may cost more.

        This price is reserved before the fetch.
        """
        return self.page + self._extra(options)

    def most(self, options: ScrapeOptions, pdf_pages: int) -> int:
        """Return the highest price of a page, of whose PDF files ``pdf_pages`` are read."""
        page = max(self.page, self._pdf_page * pdf_pages)
        stealth = 0 if options.proxy == "basic" else self._stealth
        return page + stealth + self._extra(options)

    def without_fetch(self, price: int) -> int:
        """Return the rest of the price of a page that is not fetched: its surcharges."""
        return max(0, price - self.page)

    def _extra(self, options: ScrapeOptions) -> int:
        retention = self._zero_retention if options.zero_data_retention else 0
        return retention + (self.reading if options.extracts else 0)
