"""Packet filters, and restrictions on the accounts that run jobs."""
