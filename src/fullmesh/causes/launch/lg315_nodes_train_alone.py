"""Every node trains alone

{count} logs each report a world size of 1: the nodes never connected, and
each trains alone.

**Place:** the launcher of every node: WORLD_SIZE, num_nodes or --nnodes

**Prove:** on all nodes: env | grep -E '^(WORLD_SIZE|NODE_RANK|MASTER_)' && date +%s.%N (clocks, see
LG-314)

**Fix:** Set num_nodes in the Trainer and start every node with the cluster's environment (role
launchers).

**Source:** measured with clocks 20 s apart: exit 0, trained alone. Read: Lightning's start line
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern

ALONE = Fact("alone", Pattern("GLOBAL_RANK: 0, MEMBER: 1/1", "GLOBAL_RANK: 0, MEMBER: 1/1(?!\\d)"))


def find_standalone_runs(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find several logs in each of which Lightning counts one rank."""
    lines = [line for _, line in evidence.facts.of("alone")]
    if len({line.file for line in lines}) > 1:
        yield CAUSE.make_finding({"count": str(len(lines))}, lines)


CAUSE = LogCause(
    "LG-315",
    __doc__,
    find=find_standalone_runs,
    facts=(ALONE,),
    weight=82,
)
