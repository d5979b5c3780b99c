"""Commands of ``scrapy`` in this project; the setting ``COMMANDS_MODULE``."""
