"""Harmless: NCCL found no path for a pattern and uses a simple order

NCCL's search found no path for pattern {pattern} and used a simple order. This may cost speed, but
the job works.

**Prove:** run all_reduce_perf of nccl-tests, or ./fullmesh verify (check L5 measures the rates of
the links)

**Fix:** Nothing to do. On EFA or in a VM, you can give NCCL the machine's topology
(NCCL_TOPO_FILE). If a job on EFA hangs after this line, see LG-426.

**Source:** read: nccl search.cc:1293 (WARN up to 2.26, INFO in 2.30), NVIDIA/nccl#487
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-902",
    __doc__,
    examples=(
        (
            "node1:2374:2645 [0] graph/search.cc:1127 NCCL WARN Could not find a path for "
            "pattern 4, falling back to simple order"
        ),
    ),
    patterns=(
        Pattern(
            "Could not find a path for pattern",
            r"Could not find a path for pattern (?P<pattern>\d+)",
        ),
    ),
    severity=Severity.HARMLESS,
    recorded=(
        RecordedLog(
            "pattern 4 beside EFA that carries traffic",
            (
                "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa\n"
                "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to "
                "simple order\n"
                "n:1:2 [0] NCCL INFO Channel 00/0 : 0[170] -> 8[170] [send] via NET/AWS "
                "Libfabric/0\n"
                "n:1:2 [0] NCCL INFO Connected all rings\n"
                ""
            ),
            heads=(),
            harmless=("LG-902",),
        ),
        RecordedLog(
            "pattern 4 beside another provider",
            (
                "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm\n"
                "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to "
                "simple order\n"
                ""
            ),
            heads=(),
            harmless=("LG-902",),
        ),
    ),
)
