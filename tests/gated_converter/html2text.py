"""A stand-in for html2text, in processes that have this folder in their PYTHONPATH.

Conversions wait until the folder ``CONVERSIONS`` has a file ``go``. Then each takes 0.3 s,
and adds the name of its site to the file ``order``: see ``tests/support/linked_site.py``.
"""

import os
import re
import time
from pathlib import Path

FOLDER = Path(os.environ["CONVERSIONS"])
POLL_S = 0.05
TIME_S = 0.3  # so that converters are what all wait for, also on a slow machine


class HTML2Text:
    def __init__(self, **options):
        pass

    def handle(self, source):
        while not (FOLDER / "go").exists():
            time.sleep(POLL_S)
        with (FOLDER / "order").open("a") as order:
            order.write(re.search(r" in (\S+)\.", source)[1] + "\n")
        time.sleep(TIME_S)
        return source
