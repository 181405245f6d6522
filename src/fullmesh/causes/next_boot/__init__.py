"""What the next boot changes."""
