"""Kernel tables and limits that are full or too small."""
