"""Commands that this project adds to ``scrapy``; see ``COMMANDS_MODULE``."""
