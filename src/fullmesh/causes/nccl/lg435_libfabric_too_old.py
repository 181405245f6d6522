"""EFA: the plugin was built for a newer libfabric than the one that it runs with

The EFA plugin asked libfabric for {detail}, which this libfabric does not know: the plugin was
compiled against a newer version than the one that is loaded.

**Where:** the image or node of this log

**Prove:** fi_info --version; ldd libnccl-net.so | grep fabric (which libfabric is loaded)

**Fix:** Use the plugin and libfabric of one EFA installer version; remove the older libfabric from
LD_LIBRARY_PATH.

**Source:** aws/aws-ofi-nccl#241
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-435",
    __doc__,
    looks=(
        (
            "node1:1:2 [0] configure_sendrecv_inorder:213 NCCL WARN NET/OFI Couldn't set "
            "FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES. RC: -92, ERROR: Protocol not "
            "available"
        ),
    ),
    patterns=(
        Pattern(
            "Protocol not available",
            r"NET/OFI Couldn't set (?P<detail>FI_OPT_\w{1,80})\. .{0,40}Protocol not available",
        ),
    ),
    weight=86,
)
