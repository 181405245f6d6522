"""The environment of jobs, and what each node must have of its own."""
