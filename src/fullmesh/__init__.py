"""Fullmesh: turns bare nodes into a verified PyTorch-distributed cluster."""

__version__ = "0.1.0"
