"""RDMA transfers between the devices of two nodes."""
