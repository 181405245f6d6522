"""Training over all ranks."""
