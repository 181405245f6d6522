"""NVSHMEM: IBGDA is not allowed to use the NIC

NVSHMEM's GPU-initiated transport (IBGDA) could not allocate its resources on the NIC (DEVX). The
process lacks the rights, as in a container that is not privileged, or the driver does not allow it.

**Place:** the container or node of this log

**Prove:** modinfo nvidia | grep PeerMapping && ls -l /dev/infiniband, or run it in a privileged
container

**Fix:** Start the container with --privileged, or with /dev/infiniband and the capabilities
IPC_LOCK and SYS_RAWIO. NVSHMEM's guide lists the driver's options (NVreg_EnableStreamMemOPs,
PeerMappingOverride).

**Source:** sgl-project/sglang#12533
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-723",
    __doc__,
    examples=(
        "/src/modules/transport/ibgda/ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar",
    ),
    patterns=(
        Pattern("ibgda.cpp:", r"ibgda\.cpp:\d+: .{0,40}(?:cannot allocate|mlx5dv_devx)"),
        Pattern("init failed for transport: IBGDA"),
    ),
    weight=86,
)
