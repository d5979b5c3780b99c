"""Words, queries and index entries of searches, and duplicates of texts."""
