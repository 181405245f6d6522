"""Jobs that hang."""
