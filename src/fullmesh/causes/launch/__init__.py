"""Start and end of jobs (torchrun, torch.distributed, Lightning)."""
