"""A node's own name resolves to loopback or to nothing

Without GLOO_SOCKET_IFNAME, Gloo announces the address of the node's own name. Ubuntu's installer
sets it to 127.0.1.1, which no peer can reach.

**Prove:** getent ahosts $(hostname)

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network, or write the cluster address and the
name into /etc/hosts.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node, is_own_name
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.model import ClusterObservations


def is_loopback_ip(address: str) -> bool:
    """Return whether an address is loopback, which peers cannot reach."""
    try:
        return ipaddress.ip_address(address.split("%", maxsplit=1)[0]).is_loopback
    except ValueError:
        return False


def rule_own_name_loopback(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the node's own name is not loopback, because Gloo announces it if no interface is set."""
    for name in seen.plan["nodes"]:
        names = seen.facts(name).get("names")
        if names is None:
            continue
        own = names["own"]
        if own and not is_loopback_ip(own[0]):
            continue
        yield Finding(
            "VC-102",
            "L1",
            f"{name}'s own host name {names['hostname']} does not resolve to an address that peers can reach",
            node=name,
            seen=join_names(own) if own else "no answer",
            expected=seen.address(name),
            check=f"on {name}: getent ahosts {names['hostname']}",
            fix=seen.apply("network"),
        )


CAUSE = Cause(
    "VC-102",
    __doc__,
    find=rule_own_name_loopback,
    weight=640,
    explains=(
        Explains(("DG-123",), has_same_node),
        Explains(("VC-101",), is_own_name),
    ),
    cases=(
        CauseCase("own-loopback", "127.0.1.1 HOSTNAME in /etc/hosts, nothing else for it"),
        CauseCase("own-unknown", "no line for HOSTNAME in /etc/hosts and no name server"),
    ),
)
