"""Hides the libraries of exports from a process with this folder in PYTHONPATH."""

import sys


class _Hidden:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {"pyarrow", "warcio"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Hidden())
