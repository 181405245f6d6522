"""EFA: the plugin was built for a newer libfabric than the one that is loaded

The loaded libfabric does not support what the EFA plugin or NCCL asks for ({detail}): it is older
than the one for which they were built.

**Place:** the image or node of this log

**Prove:** run `fi_info --version` and `ldd libnccl-net.so | grep fabric`, which shows the libfabric
that is loaded

**Fix:** Use the plugin and the libfabric of the same EFA installer version, and remove the older
libfabric from LD_LIBRARY_PATH. NCCL 2.19 and newer need EFA installer 1.29 or newer (before it:
FI_EFA_SET_CUDA_SYNC_MEMOPS=0).

**Source:** aws/aws-ofi-nccl#241, #584
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-435",
    __doc__,
    examples=(
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
        # NCCL 2.19 and newer with the libfabric of EFA installers before 1.29
        Pattern(
            "NET/OFI Unable to register memory",
            r"NET/OFI (?P<detail>Unable to register memory) \(type = 2\).{0,40}RC: -22",
        ),
    ),
    weight=86,
)
