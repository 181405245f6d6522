"""Settings of the verification."""
