"""Harmless: NCCL has no network plugin

NCCL looked for a vendor's network plugin (libnccl-net.so), found none and uses its own transport.
Only EFA and some fabrics need a plugin.

**Prove:** with NCCL_DEBUG=INFO, the line 'Using network' names the transport

**Fix:** Nothing to do, except on AWS with EFA: install aws-ofi-nccl (see LG-420).

**Source:** read: nccl plugin_open.cc:97-128
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-901",
    __doc__,
    examples=(
        (
            "node1:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using "
            "internal implementation"
        ),
        "node1:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
        (
            "node1:1:1 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : "
            "libnccl-net.so: cannot open shared object file: No such file or directory"
        ),
    ),
    patterns=(
        Pattern("No plugin found"),
        Pattern("libnccl-net", r"Could not find: .{0,80}libnccl-net"),
        Pattern("libnccl-net", r"libnccl-net[\w.-]*: cannot open shared object file"),
        Pattern("NET/Plugin: Failed to find ncclNetPlugin"),
    ),
    severity=Severity.HARMLESS,
    recorded=(
        RecordedLog(
            "seed 4: plugin",
            (
                "gpu:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using "
                "internal implementation\n"
                "gpu:1:1 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : "
                "libnccl-net.so: cannot open shared object file: No such file or directory"
            ),
            heads=(),
            harmless=("LG-901",),
        ),
    ),
)
