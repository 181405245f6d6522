"""GPU acceptance: one script for a machine with a GPU, torch and no network (acceptance.py)."""
