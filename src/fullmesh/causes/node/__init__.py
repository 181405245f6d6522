"""Requirements of each node."""
