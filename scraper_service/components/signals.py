"""Signals of ours beside Scrapy's, sent through ``crawler.signals``."""

#: A caller no longer waits for the page of ``scrape_id``: its download may be cut.
page_abandoned = object()

#: The page of ``scrape_id`` has ended without an item of its own.
page_ended = object()
