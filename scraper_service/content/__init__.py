"""Bytes of a page to formats; pure, runs in the converter processes."""
