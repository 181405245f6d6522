"""NCCL is older than the GPU

NCCL {version} runs on {gpu}, but NCCL supports this kind of GPU from {first} on. Older versions
crash or hang there.

**Place:** the image or environment of the node of this log

**Prove:** python -c 'import torch; print(torch.cuda.nccl.version())' && nvidia-smi -L

**Fix:** Install a torch whose NCCL supports the GPU, or a newer nvidia-nccl wheel of the same CUDA
version, the same on all nodes.

**Source:** NVIDIA/nccl#1611, read: the release notes of NCCL 2.18 and 2.25
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
)

# a GPU's name, and the first NCCL that supports it
FIRST_VERSIONS = (
    (("GB200", "GB300", "B200", "B300"), (2, 25)),
    (("H100", "H200", "GH200", "H800", "H20"), (2, 15)),
)
GPU = Fact(
    "new GPU",
    Pattern("NVIDIA ", r"device +\d{1,2} \[[\w:.]{1,16}\] NVIDIA (?P<gpu>G?[BH]\d{2,3})\b"),
)
VERSION = Fact(
    "NCCL of a run", Pattern("NCCL version ", r"NCCL version (?P<version>\d\.\d{1,3}\.\d{1,3})")
)


def find_old_nccl(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find a version of NCCL that does not know the GPU of its log."""
    versions = evidence.facts.of("NCCL of a run")
    for (gpu,), line in evidence.facts.of("new GPU"):
        first = next((first for names, first in FIRST_VERSIONS if gpu in names), None)
        old = [
            (values[0], shown)
            for values, shown in versions
            if first
            and tuple(map(int, values[0].split(".")))[:2] < first
            and shown.file == line.file
        ]
        if first and old:
            fields = {"version": old[0][0], "gpu": gpu, "first": ".".join(map(str, first))}
            yield CAUSE.make_finding(fields, [old[0][1], line])
            return


CAUSE = LogCause(
    "LG-458",
    __doc__,
    find=find_old_nccl,
    facts=(GPU, VERSION),
    only_with=("LG-307", "LG-308", "LG-415", "LG-422", "LG-531"),
    weight=88,
    recorded=(
        RecordedLog(
            "nccl-tests on GB200",
            (
                "NCCL version 2.21.5+cuda12.8\n"
                "#  Rank  0 Group  0 Pid 186363 on  node1 device  0 [0x01] NVIDIA GB200\n"
                "free(): corrupted unsorted chunks\n"
                "[node1:186363] *** Process received signal ***\n"
                "[node1:186363] Signal: Aborted (6)"
            ),
            folded=("LG-308",),
        ),
    ),
)
