"""GPUs, RDMA ports, NCCL and the cards between."""
