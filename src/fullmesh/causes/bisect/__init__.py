"""What runs of groups of nodes (--bisect) show."""
