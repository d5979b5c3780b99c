"""The verbs of the API, without HTTP."""
