"""Signals of ours beside Scrapy's, sent through ``crawler.signals``."""

#: A caller no longer waits for the page of ``scrape_id``: its download may be cut.
page_abandoned = object()

#: An ``item`` of ours is whole: a page, a link of a map, a result of a search. What own
#: pipelines and feeds make of it, or whether they drop it, is no matter of who waits.
item_made = object()

#: The page of ``scrape_id`` has ended without an item of its own.
page_ended = object()
