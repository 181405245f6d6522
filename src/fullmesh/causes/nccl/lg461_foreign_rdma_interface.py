"""NCCL uses an RDMA NIC whose interface is in another network namespace

NCCL cannot connect over an RDMA NIC (ibv_modify_qp: No such device). The NIC is visible here, but
the network interface of its GID belongs to the host, another container or another pod.

**Place:** the container of this log

**Prove:** in that container, compare `ls /sys/class/infiniband` with the interfaces of `ip -br addr`
and with /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/

**Fix:** Give the container the interface of each NIC that it uses (SR-IOV device plugin, host-device
CNI or the host's network). Name only these NICs in NCCL_IB_HCA.

**Source:** NVIDIA/nccl#925, read: the kernel's ib_modify_qp_is_ok and rdma_cm
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-461",
    __doc__,
    examples=(
        "n:1:2 [0] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error No such device",
    ),
    patterns=(
        Pattern(
            "ibv_modify_qp failed",
            r"ibv_modify_qp failed with (?:error )?\D{0,3}\d{0,4}\s?No such device",
        ),
    ),
    explains=(Explains(("LG-421", "LG-422")),),
    weight=80,
)
