"""Known defects of released programs by version. A version in this table is a suspicion, never a proof."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class KnownDefect:
    """A defect of a program.

    Attributes:
        since: the first version that has it. If it is not known, the first one of the series before the fix.
        fixed_in: the first version that does not have it.
        source: where the maintainers or several users confirm it.
        machine: the only kind of CPU that has it, as ``uname -m`` prints it.
    """

    program: str
    since: str
    fixed_in: str
    symptom: str
    source: str
    machine: str = ""

    def affects(self, version: str) -> bool:
        """Return whether a version has the defect."""
        return parse_version(self.since) <= parse_version(version) < parse_version(self.fixed_in)

    def describe(self, version: str) -> str:
        """Return the defect in one sentence."""
        return f"{self.program} {version}: {self.describe_fix()}"

    def describe_fix(self) -> str:
        """Return the symptom, the version without it, and the source."""
        return f"{self.symptom}, fixed in {self.fixed_in} ({self.source})"


# program | since | fixed in | symptom | source | machine. "notes": the release notes of the version with the fix.
ROWS = """
aws-ofi-nccl|1.20|1.21.0|small messages can hang if NCCL receives several at once|aws/aws-ofi-nccl#1358
NVIDIA driver|560|570|transfers between GPUs of one node (P2P) can hang in NCCL|dmlc/xgboost#11242
torch|2.5.0|2.6.0|init_process_group can crash while it logs a failed connection|pytorch/pytorch#137745
torch|2.7.0|2.7.1|init_process_group with a device_id can make NCCL hang at random|pytorch/pytorch#153960
vLLM|0.11.1|0.11.2|pipeline parallelism over several nodes with Ray fails|notes, ray-project/ray#58026
NCCL|2.28.9|2.29.3|hangs on Arm CPUs, if it was compiled with gcc before 10|notes, marin-community/marin#8038|aarch64
NCCL|2.28.3|2.28.9|jobs on many nodes can hang|notes
NCCL|2.28.3|2.28.7|it crashes if no network plugin can be used|notes
NCCL|2.27.3|2.28.7|symmetric kernels can corrupt small messages, and NVLink SHARP can crash|notes
NCCL|2.27.3|2.27.6|ncclCommDestroy and ncclCommAbort change the current GPU|notes
NCCL|2.24.3|2.27.3|its RAS thread can crash while communicators start|NVIDIA/nccl#1669, #1718
NCCL|2.26.2|2.27.3|ncclCommSplit can corrupt memory, and all-to-all of over 80 ranks can hang|notes
NCCL|2.26.2|2.26.3|transfers over RoCE can be slow, and capturing large CUDA graphs takes longer|notes
NCCL|2.24.3|2.26.3|it fails in containers without SYS_NICE, which cannot allocate host memory by NUMA node|notes
NCCL|2.25.1|2.26.2|ncclCommAbort hangs, so a failed job does not end|pytorch/pytorch#149153, #149351
NCCL|2.25.1|2.26.2|ranks with GPUs of different kinds, or groups of split communicators, can hang|notes
NCCL|2.25.1|2.26.2|all-to-all fails on GeForce RTX 5090|NVIDIA/nccl-tests#291
NCCL|2.23.4|2.24.3|nodes with different CPUs or GPUs can hang, and file descriptors leak|notes
NCCL|2.22.3|2.23.4|it crashes if a NIC has no NUMA node (virtual machines)|notes
NCCL|2.20|2.22.3|ranks can deadlock when they launch CUDA graphs|NVIDIA/nccl#1251, sgl-project/sglang#7602
NCCL|2.21.5|2.22.3|nodes with different CPUs can hang|notes
NCCL|2.20.3|2.21.5|ranks with different values of NCCL_CROSS_NIC hang|notes
NCCL|2.19.3|2.20.3|connections of all-to-all can hang|notes
NCCL|2.18.1|2.19.1|a full /dev/shm ends ranks with a bus error, and their start can hang|notes, NVIDIA/nccl#936
NCCL|2.18.1|2.18.3|collectives can corrupt data on nodes with one NIC per GPU|notes
NCCL||2.18.1|irregular sends and receives (alltoallv) can hang|notes, NVIDIA/nccl#788
NCCL|2.17.1|2.18.1|ncclCommAbort can hang, and a closed socket can stay unnoticed|pytorch/pytorch#119215, #97843
NCCL|2.13|2.17|hangs if CUDA_LAUNCH_BLOCKING=1 is set|NVIDIA/nccl#750, pytorch/pytorch#97843
"""


def _parse_row(row: str) -> KnownDefect:
    program, since, fixed_in, symptom, source, *machine = row.split("|")
    source = source.replace("notes", f"release notes of {fixed_in}")
    return KnownDefect(program, since, fixed_in, symptom, source, *machine)


KNOWN_DEFECTS = tuple(map(_parse_row, ROWS.split("\n")[1:-1]))


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, at most three."""
    return tuple(map(int, NUMBERS.findall(text)[:3]))


def find_known_defects(
    program: str, versions: Iterable[str], machine: str = ""
) -> list[tuple[KnownDefect, str]]:
    """Return the defects of these versions of a program, each with its version. Give the machine if it is known."""
    return [
        (defect, version)
        for version in sorted(versions)
        for defect in KNOWN_DEFECTS
        if defect.program == program
        and (not machine or defect.machine in ("", machine))
        and defect.affects(version)
    ]
