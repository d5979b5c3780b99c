"""Search engines, each behind the same interface."""
