"""The composition root: makes the running processes from the settings.

:mod:`~scraper_service.server.service` is the service with its HTTP API,
:mod:`~scraper_service.server.worker` the same without. Imports are inside functions, since
the reactor must be installed first.
"""
