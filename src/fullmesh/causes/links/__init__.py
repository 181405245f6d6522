"""Connections between two nodes."""
