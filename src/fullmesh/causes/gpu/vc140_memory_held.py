"""Programs use memory of a GPU, and no job runs (warning)

A leftover process of an earlier job, or another user's program, uses GPU memory. The next job may
fail with CUDA out of memory.

**Prove:** nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv

**Fix:** End the process. If several people share the machine, let a scheduler assign the GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import describe_gpu_addresses, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations

# On an idle GPU, the driver itself uses less than this.
IDLE_MIB = 512


def parse_mib(text: str) -> int:
    """Return the MiB of ``28610 MiB``, or 0 if there is no value."""
    found = re.match(r"(\d+) MiB$", text)
    return int(found[1]) if found else 0


def find_occupied_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Find memory in use although no distributed job runs."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        full = [gpu for gpu in held["cards"] if parse_mib(gpu.get("memory_used", "")) > IDLE_MIB]
        if full and not box.busy:
            used = max(parse_mib(gpu.get("memory_used", "")) for gpu in full)
            yield Finding(
                "VC-140",
                "L1",
                f"programs use memory of {describe_gpu_addresses(full)} on {node} (up to {used} MiB), although no "
                "distributed job runs there",
                node=node,
                seen=f"{used} MiB",
                expected=f"less than {IDLE_MIB} MiB",
                fix=f"on {node}: end the programs that use the GPUs",
                severity=WARNING,
                check=f"on {node}: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; "
                "fuser -v /dev/nvidia*",
            )


CAUSE = Cause(
    "VC-140",
    __doc__,
    find=find_occupied_gpus,
    severity=WARNING,
    cases=(CauseCase("gpu-held", "30 GB of a GPU are in use, and no job runs", by=RECORDED),),
)
