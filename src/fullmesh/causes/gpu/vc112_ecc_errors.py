"""A GPU had memory errors that ECC could not correct

An uncorrectable error ends the process that used the memory. It can come back until the row is
remapped, at the next reset of the GPU.

**Prove:** nvidia-smi -q -d ECC,ROW_REMAPPER. For AMD: grep . /sys/bus/pci/devices/*/ras/*_err_count

**Fix:** Reboot the node. Replace the GPU if the errors return.

**Source:** NVIDIA, GPU Memory Error Management; Linux, AMDGPU RAS Support
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.cards import list_amd_gpus, list_gpus
from fullmesh.verify.model import ClusterObservations


def rule_ecc_errors(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no GPU had an uncorrectable memory error since the driver was loaded."""
    for name in seen.plan["nodes"]:
        bad = [gpu for gpu in list_gpus(seen, name) if gpu.get("ecc_volatile")]
        if bad:
            yield Finding(
                "VC-112",
                "L1",
                f"{join_names([str(gpu['bus']) for gpu in bad])} of {name} had memory errors that ECC could not fix",
                node=name,
                seen=f"{sum(gpu['ecc_volatile'] for gpu in bad)} uncorrectable errors",
                expected="0",
                check=f"on {name}: nvidia-smi -q -d ECC,ROW_REMAPPER",
                fix=f"reboot {name}, which remaps rows. Replace the GPU if the errors return",
            )
        amd = [gpu for gpu in list_amd_gpus(seen, name) if gpu["uncorrectable"]]
        if amd:
            yield Finding(
                "VC-112",
                "L1",
                f"{join_names([gpu['bus'] for gpu in amd])} of {name} had memory errors that ECC could not fix",
                node=name,
                seen=f"{sum(gpu['uncorrectable'] for gpu in amd)} uncorrectable errors",
                expected="0",
                check=f"on {name}: grep . /sys/bus/pci/devices/*/ras/*_err_count",
                fix=f"reboot {name}, which retires the pages. Replace the GPU if the errors return",
            )


CAUSE = Cause(
    "VC-112",
    __doc__,
    find=rule_ecc_errors,
    cases=(CauseCase("gpu-ecc", "two errors that ECC could not correct", by=RECORDED),),
)
