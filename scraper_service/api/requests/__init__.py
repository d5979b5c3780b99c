"""Bodies that only the API reads: all of v1, and those of v2 that set no options of pages and jobs."""
