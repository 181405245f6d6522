"""Filters of the verification, the diagnosis, the watch and EC2, which change no node."""
