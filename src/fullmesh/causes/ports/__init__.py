"""The ranges from which ports are taken."""
