"""Extraction of structured data from a page, by a JSON Schema or a prompt.

Extraction follows rules: it makes no requests and calls no language model.

``extract.py`` is the entry, and goes through the fields; ``page.py`` contains its input, the
parts of it and the result. ``requested_fields.py`` interprets the fields of a schema, and
``prompts.py`` derives fields from a prompt. ``candidates.py`` collects possible values for
each field, ``lists.py`` lists and records; ``unlabelled.py`` finds values without a label.
"""
