"""Search engines with one common interface."""
