"""NCCL: the forced algorithm or protocol cannot do this

A setting forces an algorithm or protocol that cannot do {function} with this type on this hardware.

**Place:** the settings of the node of this log

**Prove:** env | grep -E '^NCCL_(ALGO|PROTO|NVLS_ENABLE|COLLNET_ENABLE)'

**Fix:** Remove NCCL_ALGO and NCCL_PROTO from the job's environment and from nccl.conf. NCCL chooses
them itself.

**Source:** read: NCCL's enqueue.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-451",
    __doc__,
    examples=(
        (
            "n:1:2 [0] enqueue.cc:5 NCCL WARN No algorithm/protocol available for function "
            "AllReduce with datatype ncclFloat32. NCCL_ALGO was set to NVLS."
        ),
    ),
    patterns=(
        Pattern(
            "No algorithm/protocol available",
            r"No algorithm/protocol available for function (?P<function>\w{1,40})",
        ),
    ),
    weight=88,
)
