"""A container that runs a job uses a different port range than its node

A new network namespace starts with the kernel's default range, even if the host uses a pinned one.
A job in a container with its own network therefore listens outside the opened range.

**Prove:** nsenter -t PID -n sysctl net.ipv4.ip_local_port_range

**Fix:** Start the container with --network=host or --sysctl, or set securityContext.sysctls on the
pod.

**Source:** measured with nested namespaces
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.ports.port_ranges import JOB, KEY
from fullmesh.observed.ports import parse_port_range
from fullmesh.result.findings import Finding


def rule_container_ports(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a job in a container with its own network, which does not inherit the pinned range."""
    for name in evidence.nodes:
        mine = evidence.port_range(name)
        for space in evidence.survey(name).get("namespaces", []):
            job = next((c for c in space["commands"] if JOB.search(c)), "")
            theirs = space["port_range"]
            if not job or mine is None or parse_port_range(theirs) == mine:
                continue
            yield Finding(
                "DG-108",
                "L1",
                f"a job in a network namespace of its own on {name} uses a different port range than {name}",
                node=name,
                port=theirs.replace(" ", "-"),
                seen=f"{theirs} (pid {space['pid']}: {job[:80]})",
                expected=mine.sysctl,
                fix=f"start the container with --network=host, or with --sysctl {KEY}='{mine.sysctl}'",
            )


CAUSE = Cause(
    "DG-108",
    __doc__,
    find=rule_container_ports,
    needs=("sysctls", "namespaces"),
    weight=250,
    cases=(
        CauseCase(
            "netns-range",
            "unshare -n on the node, with a dummy interface that is up and a process called torchrun, python or pt_*",
        ),
    ),
)
