"""Names of nodes and who answers them."""
