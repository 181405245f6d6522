"""NCCL: the nodes use different networks

NCCL uses another network on some nodes than on others: {networks}. Such nodes cannot communicate.
Some nodes lack a plugin (HPC-X's libnccl-net.so, EFA, gIB) or a usable RDMA NIC.

**Place:** the nodes whose network differs from the others

**Prove:** on every node, in the job's environment, run `env | grep -E
'^(LD_LIBRARY_PATH|NCCL_NET|NCCL_NET_PLUGIN)='`, `ldconfig -p | grep nccl-net` and `ls
/dev/infiniband`

**Fix:** Use the same image and environment on all nodes. To run without the plugin, set
NCCL_NET_PLUGIN=none on all of them.

**Source:** NVIDIA/nccl#1634
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    NCCL_LINE,
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    LogLine,
    Pattern,
    RecordedLog,
)
from fullmesh.causes.nccl.patterns import RINGS

NETWORK = Fact(
    "network", Pattern("Using network ", NCCL_LINE + r"Using network (?P<network>\w[\w ./-]{0,40})")
)
HOSTS_SHOWN = 4


def find_different_plugins(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find hosts of one job without a common network. Skip jobs that got past their start."""
    known = evidence.facts
    sizes = {values[2] for values, _ in known.of("member")}
    if known.of("rings") or len(sizes) > 1:
        return
    networks: dict[str, set[str]] = {}
    lines: dict[str, LogLine] = {}
    for (host, network), line in known.of("network"):
        networks.setdefault(host, set()).add(network.strip())
        lines.setdefault(host, line)
    if len(networks) > 1 and not set.intersection(*networks.values()):
        text = ", ".join(
            f"{' and '.join(sorted(names))} on {host}"
            for host, names in list(networks.items())[:HOSTS_SHOWN]
        )
        yield CAUSE.make_finding({"networks": text}, list(lines.values()))


CAUSE = LogCause(
    "LG-438",
    __doc__,
    find=find_different_plugins,
    facts=(NETWORK, RINGS),
    explains=(Explains(("LG-405", "LG-409", "LG-412", "LG-415", "LG-421", "LG-422")),),
    weight=88,
    recorded=(
        RecordedLog(
            "the plugin is on one node only",
            (
                "node11:18226:18274 [5] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. "
                "Using internal network plugin.\n"
                "node11:18226:18274 [5] NCCL INFO Using network IB\n"
                "node4:589474:589541 [0] NCCL INFO P2P plugin v8 IBext_v8\n"
                "node4:589474:589541 [0] NCCL INFO Using network IBext_v8"
            ),
            harmless=("LG-901",),
        ),
    ),
)
