"""Packet filters, and accounts that they treat unlike."""
