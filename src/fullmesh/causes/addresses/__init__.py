"""Which address the job's variables, neighbours and nodes give each other."""
