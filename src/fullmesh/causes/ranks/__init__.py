"""Results of the check's ranks."""
