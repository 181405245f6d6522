"""The listen backlog is too short for the number of ranks

All ranks connect to the store at once. The kernel drops connections that do not fit into the
backlog, and clients retry after 1 s or more. Start-up takes 10 times as long.

**Prove:** sysctl net.core.somaxconn && nstat -az TcpExtListenOverflows

**Fix:** Set net.core.somaxconn to at least twice the number of ranks. Each rank opens 2 connections
to the store.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_lossy_end
from fullmesh.model.ports import CONNECTIONS_PER_RANK
from fullmesh.result.findings import ERROR, WARNING, Finding


def rule_backlog(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose listen backlog is too short for the connections that arrive at once.

    Whether they wait is a matter of moments: a number that might not do is a warning, lost connections are an error.
    Linux lets one more wait than the backlog says: sk_acceptq_is_full compares with >.
    """
    world = int(evidence.plan["world_size"])
    for name in evidence.nodes:
        most = evidence.number(name, "net.core.somaxconn")
        # Other services overflow, too; ours did when a link to them is not open.
        hit = any(
            r["node"] == name and r["verdict"] != "open"
            for n in evidence.nodes
            for r in evidence.records(n)
        )
        lost = evidence.counter(name, "TcpExt.ListenOverflows") if hit else 0
        connections = CONNECTIONS_PER_RANK * world if name == evidence.master else world - 1
        if most is None or (most + 1 >= connections and not lost):
            continue
        yield Finding(
            "DG-144",
            "L1",
            f"listeners on {name} let {most + 1} connections wait, {world} ranks may open {connections} at once",
            node=name,
            seen=f"net.core.somaxconn={most}"
            + (f", {lost} connections lost during the probe" if lost else ""),
            expected=f"at least {max(connections - 1, 128)}",
            fix=f"on {name}: sysctl -w net.core.somaxconn=4096"
            + ("" if evidence.assumed else f"; {evidence.seen.apply('tuning')}"),
            severity=ERROR if lost else WARNING,
        )


CAUSE = Cause(
    "DG-144",
    __doc__,
    find=rule_backlog,
    weight=1040,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138"), has_lossy_end),),
    cases=(
        CauseCase(
            "backlog",
            "sysctl -w net.core.somaxconn=1 on the master (an error once connections are lost)",
            severity="warning",
        ),
    ),
)
