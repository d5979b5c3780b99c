"""Converts the bytes of a page into formats; pure, runs in the converter processes."""
