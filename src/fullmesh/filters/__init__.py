"""Filters: what the pure core does, under the names and with the errors that Ansible knows; one file a subject."""
