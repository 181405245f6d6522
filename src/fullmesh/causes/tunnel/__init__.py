"""The WireGuard tunnel between the nodes."""
