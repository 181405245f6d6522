"""Addresses of the master and of peers that are wrong, duplicate or stale."""
