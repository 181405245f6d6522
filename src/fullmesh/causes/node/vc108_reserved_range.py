"""The data range is reserved, so the kernel cannot assign its ports

The kernel never assigns a reserved port. Programs fail with 'Cannot assign requested address', also
for outgoing connections.

**Prove:** sysctl net.ipv4.ip_local_reserved_ports

**Fix:** Reserve only the named ports. To find the file: grep -r reserved_ports /etc/sysctl.d.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import RANGES, has_same_node, is_out_of_ports
from fullmesh.observed.ports import PortRange, parse_port_ranges
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import RUN_RESERVED


def rule_reserved_ports(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that named ports are reserved and the data range is not."""
    data = seen.plan["data_ports"]
    for name in seen.plan["nodes"]:
        sysctls = seen.facts(name).get("sysctls")
        if sysctls is None:
            continue
        held = parse_port_ranges(sysctls.get("reserved_ports", ""))
        taken = sum(span.shared(PortRange(data["first"], data["last"])) for span in held)
        if taken * 2 > data["size"]:
            yield Finding(
                "VC-108",
                "L1",
                f"{taken} of {data['size']} data ports on {name} are reserved, so the kernel does not assign them",
                node=name,
                port=str(data["firewalld"]),
                seen=sysctls["reserved_ports"],
                expected="nothing reserved inside the data range",
                check=f"on {name}: grep -r reserved_ports /etc/sysctl.d",
                fix=f"on {name}: remove the line that sets {RUN_RESERVED} from that file",
            )


CAUSE = Cause(
    "VC-108",
    __doc__,
    find=rule_reserved_ports,
    weight=1000,
    explains=(
        Explains(("VC-204",), is_out_of_ports),
        Explains(RANGES, has_same_node),
    ),
    cases=(CauseCase("range-reserved", "sysctl -w net.ipv4.ip_local_reserved_ports=50000-54095"),),
)
