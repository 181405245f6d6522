"""The kernel assigned a port outside the data range

The pinned port range has no effect on new sockets, so jobs use ports that the firewall does not
open.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** ansible-playbook site.yml -i INVENTORY --tags tuning.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations


def rule_sample_ports(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the kernel assigns ports inside the range to listeners that did not request one."""
    data = seen.plan["data_ports"]
    for name in seen.plan["nodes"]:
        ports = seen.nodes.get(name, {}).get("node", {}).get("ports", [])
        given = [p["port"] for p in ports if p["kind"] == "sample" and not p["error"]]
        out = [port for port in given if not data["first"] <= port <= data["last"]]
        if out:
            yield Finding(
                "VC-212",
                "L2",
                f"a listener on {name} got a port outside the data range",
                node=name,
                port=", ".join(map(str, out)),
                seen=", ".join(map(str, out)),
                expected=str(data["firewalld"]),
                fix=seen.apply("tuning"),
            )


CAUSE = Cause("VC-212", __doc__, find=rule_sample_ports)
