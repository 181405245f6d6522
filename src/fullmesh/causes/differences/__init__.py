"""What nodes have unlike without a rule that says it matters."""
