"""A listener could not be opened

The kernel had no free port, or the node does not have the address.

**Prove:** ss -tan | wc -l && sysctl net.ipv4.ip_local_port_range

**Fix:** Use a larger range (see DG-110), or remove its reservation (see VC-108).
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import RUN_RANGE, RUN_RESERVED, list_node_links


def rule_sample_ports_given(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the kernel assigned a port to every listener."""
    for name in seen.plan["nodes"]:
        ports = seen.nodes.get(name, {}).get("node", {}).get("ports", [])
        failed = [p for p in ports if p["kind"] == "sample" and p["error"]]
        # Without the address, no bind works, and VC-121 already reports it.
        if failed and seen.address(name) in seen.facts(name).get("addresses", {}):
            yield Finding(
                "VC-213",
                "L2",
                f"{name} gave no data port to {len(failed)} listeners on its cluster address",
                node=name,
                seen=failed[0]["error"],
                expected=f"a port in {seen.plan['data_ports']['firewalld']}",
                check=f"on {name}: ss -tan | wc -l; sysctl {RUN_RANGE} {RUN_RESERVED}",
                fix=f"wait until old connections on {name} have ended, or use a larger range",
                # links that could not be tested
                pairs=tuple(pair for pair in list_node_links(seen, name) if pair[1] == name),
            )


CAUSE = Cause(
    "VC-213",
    __doc__,
    find=rule_sample_ports_given,
    cases=(
        CauseCase(
            "no-listener",
            "a range whose every port is held, so that no listener can be opened",
            by=RECORDED,
            fields=("node", "seen"),
        ),
    ),
)
