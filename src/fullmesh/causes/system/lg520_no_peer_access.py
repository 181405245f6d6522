"""CUDA: two GPUs of the node cannot access each other's memory

A program requested direct access from one GPU to another, and CUDA refused it. The board, the
virtual machine or the driver does not support it for these two GPUs, or PCIe's access control (ACS)
or an IOMMU blocks it.

**Place:** the node of this log

**Prove:** on that node, run `nvidia-smi topo -p2p r` and `nvidia-smi topo -m`, or ./fullmesh verify
-i INVENTORY (VC-141, VC-142)

**Fix:** On bare machines, switch ACS off. If the GPUs do not support it, set NCCL_P2P_DISABLE=1 in
the environment of every worker (Ray's actors do not inherit a shell's variables), and
--disable-custom-all-reduce of vLLM or SGLang.

**Source:** vllm-project/vllm#5458, hiyouga/EasyR1#579, read: CUDA's list of errors (217)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-520",
    __doc__,
    examples=(
        "Cuda failure 217 'peer access is not supported between these two devices'",
        (
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:307 'peer access is not "
            "supported between these two devices'"
        ),
    ),
    patterns=(
        Pattern(
            "peer access is not supported between these two devices",
            # in NCCL's own shared memory, it is about the host's memory (LG-457)
            r"^(?!.*transport/shm\.cc).*peer access is not supported between these two devices",
        ),
    ),
    weight=85,
)
