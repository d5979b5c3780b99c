"""Training of the main content model; the service itself does not use this package."""
