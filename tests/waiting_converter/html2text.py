"""A stand-in for html2text, in processes that have this folder in their PYTHONPATH.

The conversion of a page that says :data:`FOR_EVER` has no end. It leaves a file in the
folder ``CONVERSIONS``, whose name is the id of its process.
"""

import os
import time
from pathlib import Path

FOR_EVER = "Wait for ever"


class HTML2Text:
    def __init__(self, **options):
        pass

    def handle(self, source):
        if FOR_EVER in source:
            Path(os.environ["CONVERSIONS"], str(os.getpid())).touch()
            while True:
                time.sleep(60)
        return source
