"""The environment of jobs, and identities that each node needs for itself."""
