"""Commands of the program ``scrapy``, not of this one; see the setting ``COMMANDS_MODULE``."""
