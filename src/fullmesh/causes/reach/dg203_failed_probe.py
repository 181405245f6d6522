"""The probe could not start on a node

The survey of the node worked, but Fullmesh did not test its outgoing connections. It did test the
connections of the other nodes to it.

**Prove:** ansible -i INVENTORY NODE -m ping

**Fix:** Fix the error that the message names, then run the diagnosis again.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import Finding


def rule_failed_probes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a node on which the probe could not start, so that its outgoing links were not tested."""
    for name in evidence.nodes:
        node = evidence.seen.nodes[name]
        links = node.get("links")
        if "L2" not in evidence.seen.checks or (links is not None and not links.get("failed")):
            continue
        if len(evidence.nodes) == 1 or not node["node"]["ports"]:
            continue
        yield Finding(
            "DG-203",
            "L2",
            f"the probe could not start on {name}, so no link from it was tested",
            node=name,
            seen=(links.get("failed", "") if links else "") or "no answer",
            expected="a probe",
            check=f"ansible -i {evidence.seen.inventory} {name} -m ping",
            fix="correct the error in the value seen, then run the diagnosis again",
        )


CAUSE = Cause(
    "DG-203",
    __doc__,
    find=rule_failed_probes,
    weight=300,
    cases=(
        CauseCase(
            "no-sender", "the probe could not be started", by=RECORDED, fields=("node", "seen")
        ),
    ),
)
