"""The clocks of a GPU are reduced (warning)

Heat, a power brake of the power supply, or the board itself reduce the GPU's clocks. A collective
waits for the slowest rank, so this GPU slows down the whole job.

**Prove:** nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER

**Fix:** Repair the fans, air flow, power cables or power supplies of that machine.

**Source:** NVML API reference, nvmlClocksEventReasons
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.cards import describe_gpu_addresses, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations

SLOWED = {
    "hw_slowdown": "the hardware",
    "hw_thermal_slowdown": "heat",
    "hw_power_brake_slowdown": "the power supply's brake",
    "sw_thermal_slowdown": "heat (held by the driver)",
}


def find_throttled_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Find GPUs with reduced clocks."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        slow = [gpu for gpu in held["cards"] if gpu.get("slowed")]
        if slow:
            why = sorted({SLOWED.get(one, one) for gpu in slow for one in gpu.get("slowed", [])})
            yield Finding(
                "VC-137",
                "L1",
                f"the clocks of {describe_gpu_addresses(slow)} on {node} are reduced by {join_names(why)}: every rank "
                "waits for it",
                node=node,
                seen=join_names(sorted({one for gpu in slow for one in gpu.get("slowed", [])})),
                expected="none",
                fix=f"repair the fans, air flow or power supply of {node}",
                severity=WARNING,
                check=f"on {node}: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
            )


CAUSE = Cause(
    "VC-137",
    __doc__,
    find=find_throttled_gpus,
    severity=WARNING,
    cases=(CauseCase("gpu-hot", "clocks reduced by heat", by=RECORDED),),
)
