"""HTTP: the routes of both versions, the table of errors, streams."""
