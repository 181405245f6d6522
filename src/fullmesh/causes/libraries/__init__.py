"""HCCL, NVSHMEM, Open MPI, Horovod, pyxis."""
