"""What ranks of the check came to."""
