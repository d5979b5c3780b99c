"""Measurements of the service on this machine, run by ``make bench``."""
