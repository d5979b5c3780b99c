"""Scrapy components: scheduler, downloads, browser, converter pool, pipelines."""
