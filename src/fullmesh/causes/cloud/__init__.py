"""What the cloud keeps from the nodes."""
