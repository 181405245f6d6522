"""The store (TCPStore, c10d)."""
