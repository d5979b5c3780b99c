"""Item pipelines: from the content of a page to the stored page, in the order of addon.py."""
