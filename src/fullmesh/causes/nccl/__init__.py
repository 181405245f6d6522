"""NCCL."""
