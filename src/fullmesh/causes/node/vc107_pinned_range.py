"""The kernel does not use the pinned port range

Gloo and NCCL take their ports from the kernel's range. If that is not the range that the firewall
opens, peers cannot reach their listeners.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** ansible-playbook site.yml -i INVENTORY --tags tuning.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, WALLS, has_kernel_ports_only, has_same_node
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import RUN_RANGE


def rule_pinned_range(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the kernel assigns data ports from the planned range, because Gloo and NCCL have no setting for it."""
    wanted = str(seen.plan["data_ports"]["sysctl"])
    for name in seen.plan["nodes"]:
        sysctls = seen.facts(name).get("sysctls")
        if sysctls is None:
            continue
        found = " ".join(sysctls.get("port_range", "").split())
        if found != wanted:
            yield Finding(
                "VC-107",
                "L1",
                f"{name} takes its ports from a different range than the plan's",
                node=name,
                port=found.replace(" ", "-"),
                seen=found,
                expected=wanted,
                fix=f"{seen.apply('tuning')}. By hand: sysctl -w {RUN_RANGE}='{wanted}'",
            )


CAUSE = Cause(
    "VC-107",
    __doc__,
    find=rule_pinned_range,
    weight=850,
    explains=(
        Explains(("DG-107", "VC-212", "VC-213", "VC-602", "DG-112"), has_same_node),
        Explains(("DG-107",)),
        Explains((*SHUT, *WALLS), has_kernel_ports_only),
    ),
    cases=(CauseCase("range-drift", "sysctl -w net.ipv4.ip_local_port_range='32768 60999'"),),
)
