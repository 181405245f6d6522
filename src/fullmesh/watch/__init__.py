"""A job that is watched while its ranks come together."""
