"""Benchmarks of the service on this machine; ``make bench`` runs them."""
