"""Diagnosis: observations of all nodes become findings, root causes first, symptoms folded under them."""
