"""NCCL listens outside the data range

NCCL's listener has a port outside the range that the firewall opens, so the peers cannot reach it.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** ansible-playbook site.yml -i INVENTORY --tags tuning.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import list_nccl_answers


def rule_nccl_port(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that NCCL, without a GPU, listens on a port of the data range."""
    data = seen.plan["data_ports"]
    for name, said in list_nccl_answers(seen):
        if said["reason"] or said["address"] != seen.address(name):
            continue
        if not data["first"] <= said["port"] <= data["last"]:
            yield Finding(
                "VC-602",
                "L6",
                f"NCCL on {name} listens outside the data range",
                node=name,
                port=str(said["port"]),
                seen=str(said["port"]),
                expected=str(data["firewalld"]),
                fix=seen.apply("tuning"),
            )


CAUSE = Cause("VC-602", __doc__, find=rule_nccl_port)
