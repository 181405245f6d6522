"""Cloud settings that block traffic between the nodes, and EFA."""
