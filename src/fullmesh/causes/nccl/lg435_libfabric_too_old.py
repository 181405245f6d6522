"""EFA: the plugin was built for a newer libfabric than the one that is loaded

The EFA plugin asked libfabric for {detail}, which the loaded version does not support. The plugin
was compiled for a newer libfabric.

**Place:** the image or node of this log

**Prove:** run `fi_info --version` and `ldd libnccl-net.so | grep fabric`, which shows the libfabric
that is loaded

**Fix:** Use the plugin and the libfabric of the same EFA installer version, and remove the older
libfabric from LD_LIBRARY_PATH.

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
