"""Two nodes count their ranks from the same number

{files} each have ranks {ranks} of {size}, and no log has the others. Each node starts the same
ranks, as if it were the only node, and the job waits for the missing ones.

**Place:** the launcher of every node: node rank, num_nodes, srun --ntasks-per-node

**Prove:** on all nodes: env | grep -E
'^(SLURM_NODEID|SLURM_PROCID|NODE_RANK|GROUP_RANK|LOCAL_RANK)'

**Fix:** Give each node its own node rank (NODE_RANK), or start one task per GPU: srun
--ntasks-per-node=GPUS. Fullmesh's launchers set both.

**Source:** Lightning-AI/pytorch-lightning#4389
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    LogLine,
    Pattern,
    join_first_items,
)
from fullmesh.causes.nccl.patterns import RINGS

GLOBAL_RANK = Fact(
    "global rank",
    Pattern(
        "GLOBAL_RANK: ",
        r"(?i:initializing (?:ddp|distributed)): GLOBAL_RANK: (?P<rank>\d{1,7}), MEMBER: \d{1,7}/(?P<size>\d{1,7})",
    ),
)


def find_same_ranks(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find logs of two nodes with the same ranks if no log has the other ranks."""
    known = evidence.facts
    if known.of("member") or known.of("rings"):
        return
    by_file: dict[str, dict[str, LogLine]] = {}
    sizes: dict[str, str] = {}
    for (rank, size), line in known.of("global rank"):
        by_file.setdefault(line.file, {})[rank] = line
        sizes[line.file] = size
    groups: dict[tuple[str, ...], list[str]] = {}
    for file, ranks in by_file.items():
        groups.setdefault((sizes[file], *sorted(ranks, key=int)), []).append(file)
    everyone = {rank for ranks in by_file.values() for rank in ranks}
    for (size, *shared), files in groups.items():
        if len(files) > 1 and 1 < int(size) > len(everyone):
            lines = [by_file[file][shared[0]] for file in files]
            fields = {
                "files": f"{len(files)} logs",
                "ranks": join_first_items(shared),
                "size": size,
            }
            yield CAUSE.make_finding(fields, lines)


CAUSE = LogCause(
    "LG-326",
    __doc__,
    find=find_same_ranks,
    facts=(GLOBAL_RANK, RINGS),
    weight=85,
)
