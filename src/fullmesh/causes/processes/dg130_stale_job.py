"""An earlier job still holds the master or rendezvous port

The old store answers the new ranks with old keys. Or the new store ends with EADDRINUSE, and the
other ranks wait past their timeout.

**Prove:** ss -ltnp 'sport = :29500'

**Fix:** End the old job on all its nodes.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import NODE, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.ports.port_ranges import JOB
from fullmesh.causes.processes.job_processes import is_live_job_port
from fullmesh.causes.relations import has_same_node
from fullmesh.observed.survey import Listener
from fullmesh.result.findings import Finding

HOUR = 3600.0


def find_port_holder(evidence: ClusterEvidence, name: str, port: int) -> Listener | None:
    """Return the processes that listen on a port."""
    listening = evidence.survey(name).get("sockets", {}).get("listening", [])
    return next((one for one in listening if one["port"] == port and one["pid"]), None)


def rule_stale_job(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report an earlier job on the master or rendezvous port, whose store would answer the new ranks."""
    for name in evidence.nodes:
        for port in evidence.seen.nodes[name]["node"]["ports"]:
            if not port["error"] or port["kind"] not in ("master", "rendezvous"):
                continue
            who = find_port_holder(evidence, name, port["port"])
            if (
                who is None
                or not JOB.search(who["command"])
                or is_live_job_port(evidence, port["port"])
            ):
                continue
            age = f"{who['age'] / HOUR:.1f} h" if who["age"] >= HOUR else f"{who['age']:.0f} s"
            yield Finding(
                "DG-130",
                "L1",
                f"a job that was started {age} ago still holds the {port['kind']} port {port['port']} on {name}",
                node=name,
                port=f"{port['port']}/tcp",
                seen=f"pid {who['pid']}: {who['command'][:120]}",
                expected="free",
                fix=f"on {name}: kill {who['pid']}, then find its ranks on the other nodes: pgrep -af torch",
            )


CAUSE = Cause(
    "DG-130",
    __doc__,
    find=rule_stale_job,
    needs=("sockets",),
    weight=550,
    explains=(Explains(("VC-109", "VC-207"), has_same_node),),
    cases=(
        CauseCase(
            "stale-job",
            "the listener's command line contains torchrun, torch.distributed, deepspeed, accelerate or pt_elastic",
            fields=(*NODE, "port"),
        ),
    ),
)
