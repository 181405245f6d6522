"""Verify a cluster: turn observations into checks, findings and a verdict."""
