"""Forward-only migrations of the job database, numbered."""
