"""CUDA: two GPUs of the node have no access to each other

A program asked for direct access from one GPU to another, and CUDA refused it: the board, the virtual
machine or the driver does not support it for these two, or PCIe's access control (ACS) or an IOMMU stands
between them.

**Where:** the node of this log

**Prove:** on that node: nvidia-smi topo -p2p r; nvidia-smi topo -m; ./fullmesh verify -i INVENTORY (VC-141,
VC-142)

**Fix:** Switch ACS off on bare machines. Where GPUs cannot do it, set NCCL_P2P_DISABLE=1 in the environment
of every worker (Ray's actors do not inherit a shell's variables), and vLLM's or SGLang's
--disable-custom-all-reduce.

**Source:** vllm-project/vllm#5458, hiyouga/EasyR1#579; read: CUDA's list of errors (217)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-520",
    __doc__,
    looks=(
        "Cuda failure 217 'peer access is not supported between these two devices'",
        (
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:307 'peer access is not "
            "supported between these two devices'"
        ),
    ),
    patterns=(Pattern("peer access is not supported between these two devices"),),
    weight=85,
)
