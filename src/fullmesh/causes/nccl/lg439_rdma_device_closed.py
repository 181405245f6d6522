"""NCCL: a process is not allowed to open an RDMA device

NCCL found the RDMA device {device} but could not open it, because the container or cgroup passes
only some of the devices. The nodes then have different devices, and channels on the missing one
wait forever.

**Place:** the container or node of this log

**Prove:** in the container of every node, run `ls -l /dev/infiniband` and `ibv_devinfo -d {device}`

**Fix:** Pass all of /dev/infiniband (docker: --device /dev/infiniband, Kubernetes: the RDMA device
plugin with every NIC), or set NCCL_IB_HCA to the devices that every node can open.

**Source:** NVIDIA/nccl#2428, read: wrap_ibv_open_device in NCCL's net_ib.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-439",
    __doc__,
    examples=(
        "node2:300:320 [0] transport/net_ib.cc:790 NCCL WARN NET/IB : Unable to open device erdma_1",
    ),
    patterns=(
        Pattern(
            "Unable to open device", r"NET/IB ?: Unable to open device (?P<device>[\w.-]{1,64})"
        ),
    ),
    weight=72,
    key=("device",),
)
