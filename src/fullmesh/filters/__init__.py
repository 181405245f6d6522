"""Filters: the pure core's functions with the names and errors that Ansible expects. One file per subject."""
