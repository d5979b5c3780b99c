"""Where the value of a field may stand, and how far each place is trusted."""
