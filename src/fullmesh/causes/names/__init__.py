"""Host names of nodes, and their lookup."""
