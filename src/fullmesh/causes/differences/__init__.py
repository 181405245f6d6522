"""Differences between nodes that no rule covers."""
