"""NVSHMEM did not start

NVSHMEM could not initialize ({detail}). An earlier line names the transport or bootstrap step that
failed.

**Place:** the node of this log

**Prove:** run it with NVSHMEM_DEBUG=INFO, and read the first lines of NVSHMEM in the log

**Fix:** Fix the first error. Name the right interface and NICs in NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME
and NVSHMEM_HCA_LIST on every node.

**Source:** read: NVSHMEM's init.cu and transport.cpp
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-742",
    __doc__,
    examples=("NVSHMEM API called before NVSHMEM initialization has completed",),
    patterns=(
        Pattern(
            "called before NVSHMEM initialization",
            r"(?P<detail>NVSHMEM API called before NVSHMEM initialization)",
        ),
        Pattern(
            "Unable to initialize any transports",
            r"(?P<detail>Unable to initialize any transports)",
        ),
        Pattern(
            "nvshmemi_init_thread", r"(?P<detail>aborting due to error in nvshmemi_init_thread)"
        ),
        Pattern("nvshmem detect topo failed", r"(?P<detail>nvshmem detect topo failed)"),
        Pattern("nvshmem initialization failed", r"(?P<detail>nvshmem initialization failed)"),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=62,
)
