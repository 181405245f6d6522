"""GPUs, NVLink, RDMA ports and NCCL's use of them."""
