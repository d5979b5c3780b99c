"""Scrape any web page as Markdown, HTML, links, images and metadata over HTTP."""
