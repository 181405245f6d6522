"""Changes at the next boot."""
