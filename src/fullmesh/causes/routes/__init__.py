"""Routes of packets."""
