"""DeepSpeed: there is no hostfile, so each node trains alone

The deepspeed command found no hostfile and starts on this node alone, but the logs show a second
node ({nodes}). Each node trains its own model, and no later message reports it.

**Place:** the node that printed this

**Prove:** look for WORLD INFO DICT and dist_world_size in the log

**Fix:** Give --hostfile /etc/fullmesh/hostfile (docs/launchers.md), or start with
fullmesh-torchrun.

**Source:** deepspeedai/DeepSpeedExamples#575, EleutherAI/gpt-neox#671
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern, join_first_items
from fullmesh.causes.nccl.patterns import BOOTSTRAP

NO_HOSTFILE = Fact("no hostfile", Pattern("Unable to find hostfile, will proceed"))
# how many nodes a launcher was told
NODES = Fact(
    "nodes",
    Pattern("nnodes", r"(?:--|\b)nnodes\W{1,4}(?P<nodes>[2-9]\d{0,4}|1\d{1,4})\b"),
)


def find_missing_hostfile(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find runs on several nodes without a hostfile. Several logs or hosts, or a node count, show them."""
    known = evidence.facts
    lines = [line for _, line in known.of("no hostfile")]
    files = sorted({line.file for line in lines})
    hosts = sorted({values[0] for name in ("member", "address") for values, _ in known.of(name)})
    named = [values[0] for values, _ in known.of("nodes")]
    second = ""
    if len(files) > 1:
        second = f"{len(files)} logs have this line"
    elif len(hosts) > 1:
        second = f"hosts {join_first_items(hosts)}"
    elif named:
        second = f"nnodes is {named[0]}"
    if lines and second:
        yield CAUSE.make_finding({"nodes": second}, lines)


CAUSE = LogCause(
    "LG-685",
    __doc__,
    find=find_missing_hostfile,
    facts=(BOOTSTRAP, NO_HOSTFILE, NODES),
    replaces=("LG-961",),
    weight=40,
)
