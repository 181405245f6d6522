"""Nodes and pairs of nodes that collectives of small groups (--bisect) show to be at fault."""
