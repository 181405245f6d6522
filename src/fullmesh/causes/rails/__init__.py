"""TCP over the rails of the plan, and the kernels' decisions about their packets."""
