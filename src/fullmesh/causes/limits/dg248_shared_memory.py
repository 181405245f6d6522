"""The shared memory in /dev/shm is too small

NCCL's ranks on one node communicate through files in /dev/shm. If it is too small, they fail with
'failed to extend /dev/shm/nccl-…'. Containers get 64 MB by default.

**Prove:** df -h /dev/shm

**Fix:** Start containers with --shm-size=2g or --ipc=host. On a node: mount -o remount,size=2G
/dev/shm

**Source:** nccl#290
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.limits.limit_values import MIB
from fullmesh.result.findings import Finding

SHM_PER_RANK = (
    32 * MIB
)  # NCCL's buffers between ranks of a node; 64 MB are too little for 8 (nccl#290)


def rule_shared_memory(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose shared memory is too small for NCCL's buffers."""
    for name in evidence.nodes:
        shm = evidence.survey(name).get("shm")
        # NCCL's buffers are between ranks with a GPU each; ranks without one talk through Gloo, over sockets.
        gpus = len(evidence.survey(name).get("gpus", {}).get("cards", []))
        need = SHM_PER_RANK * max(1, min(gpus, int(evidence.plan["nodes"][name]["local_ranks"])))
        if not shm or not shm["size"] or shm["free"] >= need:
            continue
        yield Finding(
            "DG-248",
            "L1",
            f"shared memory (/dev/shm) on {name} has {shm['free'] // MIB} MiB free, its ranks need {need // MIB}",
            node=name,
            seen=f"{shm['free'] // MIB} of {shm['size'] // MIB} MiB free",
            expected=f"at least {need // MIB} MiB free",
            fix=f"on {name}: mount -o remount,size=2G /dev/shm, or for a container: --shm-size=2g or --ipc=host",
        )


CAUSE = Cause(
    "DG-248",
    __doc__,
    find=rule_shared_memory,
    weight=140,
    cases=(CauseCase("shm", "mount a tmpfs of 16 MiB over /dev/shm"),),
)
