"""Errors that no rule knows."""
