"""Processes of jobs."""
