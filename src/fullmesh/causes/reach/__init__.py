"""Nodes that Fullmesh could not survey."""
