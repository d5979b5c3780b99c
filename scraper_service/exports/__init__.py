"""Writers of the files that pages leave in: for the API, the command line and Scrapy."""
