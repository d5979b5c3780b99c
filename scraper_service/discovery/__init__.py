"""Pure rules: which URLs a job may fetch, and which URLs are duplicates."""
