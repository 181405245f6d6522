"""What each role asks of its settings, one file a role."""
