"""Start and end (torchrun, torch.distributed, Lightning)."""
