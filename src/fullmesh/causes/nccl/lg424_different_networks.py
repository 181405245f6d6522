"""NCCL: the nodes announce addresses that cannot reach each other

NCCL announces addresses of different networks on the nodes: {addresses}.

**Place:** the node whose address is not in the cluster's network

**Prove:** ./fullmesh verify -i INVENTORY (VC-601)

**Fix:** ./fullmesh apply -i INVENTORY --tags launch (NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY for
each node).

**Source:** measured with the library 2.32.3: if an interface is down, NCCL silently uses the next
one, NVIDIA/nccl#210
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, LogEvidence, LogFinding
from fullmesh.causes.nccl.patterns import BAD_NETWORK, BOOTSTRAP

HOSTS_SHOWN = 4


def _name_ip_family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def find_different_networks(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find nodes with addresses of two families, or of two networks on different kinds of interfaces."""
    by_host = {
        values[0]: (values[1], values[2], line) for values, line in evidence.facts.of("address")
    }
    kinds = {
        (
            _name_ip_family(address),
            address.partition(".")[0] if ":" not in address else "",
            interface.rstrip("0123456789"),
        )
        for interface, address, _ in by_host.values()
    }
    families = {kind[0] for kind in kinds}
    if len(families) > 1 or (len({k[1] for k in kinds}) > 1 and len({k[2] for k in kinds}) > 1):
        text = ", ".join(
            f"{host} {address} ({name})"
            for host, (name, address, _) in list(by_host.items())[:HOSTS_SHOWN]
        )
        yield CAUSE.make_finding({"addresses": text}, [line for _, _, line in by_host.values()])


CAUSE = LogCause(
    "LG-424",
    __doc__,
    find=find_different_networks,
    facts=(BOOTSTRAP,),
    explains=(Explains(("LG-402", "LG-403", "LG-404", "LG-429")),),
    only_with=BAD_NETWORK,
    weight=79,
)
