"""What Scrapy's feeds get: flat items, and the exporters for them."""
