"""What each node must be like."""
