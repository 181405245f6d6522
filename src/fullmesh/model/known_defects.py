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
        since: the first version that has it, or an empty text if it is not known.
        fixed_in: the first version that does not have it.
        source: where the maintainers or several users confirm it.
    """

    program: str
    since: str
    fixed_in: str
    symptom: str
    source: str

    def affects(self, version: str) -> bool:
        """Return whether a version has the defect."""
        return parse_version(self.since) <= parse_version(version) < parse_version(self.fixed_in)

    def describe(self, version: str) -> str:
        """Return the defect in one sentence."""
        return f"{self.program} {version}: {self.symptom}, fixed in {self.fixed_in} ({self.source})"


KNOWN_DEFECTS = (
    KnownDefect(
        "torch",
        "2.7.0",
        "2.7.1",
        "NCCL can hang at random if init_process_group gets a device_id",
        "pytorch/pytorch#153960",
    ),
    KnownDefect(
        "vLLM",
        "0.11.1",
        "0.11.2",
        "pipeline parallelism over several nodes with Ray fails",
        "release notes of 0.11.2, ray-project/ray#58026",
    ),
    KnownDefect(
        "NCCL",
        "2.29.2",
        "2.29.3",
        "hangs on Arm CPUs, if it was compiled with gcc before 10",
        "release notes of 2.29.3, pytorch/pytorch#174338",
    ),
    KnownDefect(
        "NCCL",
        "2.25.1",
        "2.26.2",
        "ncclCommAbort hangs, so a failed job does not end",
        "pytorch/pytorch#149153, #149351",
    ),
    KnownDefect(
        "NCCL",
        "2.20",
        "2.22.3",
        "ranks can deadlock when they launch collectives with CUDA graphs",
        "NVIDIA/nccl#1251, sgl-project/sglang#7602",
    ),
    KnownDefect(
        "NCCL",
        "",
        "2.18.1",
        "irregular sends and receives (alltoallv) can hang",
        "release notes of 2.18.1",
    ),
    KnownDefect(
        "NCCL",
        "2.17.1",
        "2.18.1",
        "ncclCommAbort can hang, and a closed socket can stay unnoticed",
        "pytorch/pytorch#119215, #97843",
    ),
    KnownDefect(
        "NCCL",
        "2.13",
        "2.17",
        "hangs if CUDA_LAUNCH_BLOCKING=1 is set",
        "NVIDIA/nccl#750, pytorch/pytorch#97843",
    ),
)


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, at most three."""
    return tuple(map(int, NUMBERS.findall(text)[:3]))


def find_known_defects(program: str, versions: Iterable[str]) -> list[tuple[KnownDefect, str]]:
    """Return the defects of these versions of a program, each with its version."""
    return [
        (defect, version)
        for version in sorted(versions)
        for defect in KNOWN_DEFECTS
        if defect.program == program and defect.affects(version)
    ]
