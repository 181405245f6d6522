"""Nodes that could not be looked at."""
