"""All that touches private names of Scrapy, each with a probe for them.

Without a name, Scrapy's own way is taken, which is slower. The download handler alone has no
other way: it applies the egress rule.
"""
