"""Every public method of the public clients, unmodified, against this service.

``python -m tests.compat`` prints the table method → result; ``--save`` writes it.
"""
