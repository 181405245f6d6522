"""Verification: what was observed becomes rungs, findings and a verdict."""
