"""EFA: the plugin finds no EFA device

The EFA plugin (aws-ofi-nccl) is installed, but libfabric finds no EFA device or provider. The
container did not get the devices, its libfabric does not support EFA, or this type of instance has
no EFA.

**Place:** the container or node of this log

**Prove:** in the container, run `ls /dev/infiniband` and `fi_info -p efa`. On the node: lspci |
grep -i efa

**Fix:** Pass the devices to the container (--device /dev/infiniband/uverbs0 and so on, or the EFA
device plugin on Kubernetes) and install AWS's libfabric in the image.

**Source:** aws/aws-ofi-nccl#1020, aws-samples/aws-efa-nccl-baseami-pipeline#2, NVIDIA/nccl#229,
aws/deep-learning-containers#2675
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-434",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call "
            "failed: No data available"
        ),
        "node1:1:2 [0] find_ofi_provider:543 NCCL WARN NET/OFI Couldn't find any optimal provider",
    ),
    patterns=(
        Pattern("fi_getinfo() ", r"NET/OFI .{0,40}fi_getinfo\(\) (?:call )?failed"),
        Pattern("Only EFA provider is supported", r"NET/OFI Only EFA provider is supported"),
        Pattern("find any optimal provider", r"NET/OFI Couldn't find any optimal provider"),
        Pattern("Unable to find a protocol", r"NET/OFI Unable to find a protocol that worked"),
        Pattern("No eligible providers", r"NET/OFI No eligible providers (?:were )?found"),
    ),
    weight=84,
)
