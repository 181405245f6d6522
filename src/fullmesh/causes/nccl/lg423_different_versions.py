"""The nodes run different NCCL versions

The logs show different NCCL versions: {versions}.

**Place:** the node whose version differs

**Prove:** ./fullmesh verify -i INVENTORY (VC-104), or on each node: python -c 'import torch;
print(torch.cuda.nccl.version())'

**Fix:** Use one lock file and one NCCL version on all nodes (roles torch_runtime, nccl).

**Source:** NVIDIA/nccl#1328, pytorch/pytorch#122571 (the wheel uses its own NCCL)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern

VERSION = Fact(
    "version",
    Pattern("NCCL version ", r"NCCL version (?P<version>\d+\.\d+\.\d+)(?:\+cuda[\d.]+)?(?=\s|$)"),
)


def find_different_versions(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find logs that each name one version of NCCL, but different ones."""
    known = evidence.facts.of("version")
    by_file: dict[str, set[str]] = {}
    for values, line in known:
        by_file.setdefault(line.file, set()).add(values[0])
    versions = sorted({version for found in by_file.values() for version in found})
    if len(versions) > 1 and all(len(found) == 1 for found in by_file.values()):
        yield CAUSE.make_finding({"versions": ", ".join(versions)}, [line for _, line in known])


CAUSE = LogCause(
    "LG-423",
    __doc__,
    examples=(
        (
            "n:1:2 [0] bootstrap.cc:5 NCCL WARN Mismatched NCCL version detected : rank 0 version "
            "22703 rank 1 version 22605"
        ),
    ),
    find=find_different_versions,
    facts=(VERSION,),
    patterns=(
        Pattern(
            "NCCL version mismatch with remote peer",
            r"mismatch with remote peer \S{1,120} \((?P<versions>local: [\d.]{1,12}, remote:? [\d.]{1,12})\)",
        ),
        Pattern(
            "Mismatched NCCL version detected",
            r"Mismatched NCCL version detected : (?P<versions>rank \d{1,7} version \d{1,7} rank \d{1,7} version \d+)",
        ),
    ),
    explains=(Explains(("LG-409",)),),
    weight=83,
)
