"""SGLang: its message queue does not connect the nodes

NCCL's groups are complete, but SGLang stopped while its ranks connect a message queue (ZeroMQ)
between the nodes. The queue listens at an address that SGLang chooses by itself, such as that of a
second network or of Wi-Fi, not at that of NCCL_SOCKET_IFNAME. Or a firewall blocks its port.

**Place:** the node of rank 0: the address that it announces

**Prove:** run `ip route get 8.8.8.8` on every node (SGLang uses this source address), and `ss
-tlnp` while it waits

**Fix:** On each node, export SGLANG_HOST_IP with its address in the cluster's network, and open the
nodes' ports to each other.

**Source:** MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#3, #9, read: SGLang's shm_broadcast.py
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

BEGUN = Fact("SGLang group", Pattern("Init torch distributed begin"))
SPANS = Fact(
    "SGLang spans nodes",
    Pattern("llreduce is disabled because this process group spans across nodes"),
)
WENT_ON = tuple(
    Fact("SGLang went on", Pattern(needle))
    for needle in ("Init torch distributed ends", "Load weight begin")
)
STOPPED = tuple(
    Fact("SGLang stopped", Pattern(needle))
    for needle in ("scheduler died (exit code", "Scheduler hit an exception")
)


def find_queue(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find a scheduler that ended after creating its process groups and before finishing their setup."""
    known = evidence.facts
    begun, spans, stopped = map(known.of, ("SGLang group", "SGLang spans nodes", "SGLang stopped"))
    if begun and spans and stopped and not known.of("SGLang went on") and not evidence.findings:
        yield CAUSE.make_finding({}, [spans[0][1], stopped[0][1]])


CAUSE = LogCause(
    "LG-696",
    __doc__,
    find=find_queue,
    facts=(BEGUN, SPANS, *WENT_ON, *STOPPED),
    weight=60,
    recorded=(
        RecordedLog(
            "the scheduler was ended while it waited",
            (
                "[2026-08-27 10:11:02 TP0] Init torch distributed begin.\n"
                "[2026-08-27 10:11:06 TP0] CustomAllreduce is disabled because this process group "
                "spans across nodes.\n"
                "[2026-08-27 10:16:06] Rank 0 scheduler died (exit code: -9)"
            ),
        ),
    ),
)
