"""rp_filter drops packets that arrive on a different interface than their replies would use

With rp_filter=1, the kernel drops a packet if it would send the reply over another interface.
Several NICs in one network or a wrong route are enough. It looks like a firewall that drops
packets.

**Prove:** nstat -az TcpExtIPReversePathFilter && ip route get PEER

**Fix:** Correct the route, or set rp_filter=2 on the cluster interface.

**Source:** ip-sysctl.rst, measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path
from fullmesh.causes.routes import decisions
from fullmesh.result.findings import Finding, join_names

REVERSE_PATH = "TcpExt.IPReversePathFilter"


def is_rp_filter_strict(evidence: ClusterEvidence, name: str) -> bool:
    """Return whether rp_filter is strict on the cluster interface: the larger of 'all' and its own (ip-sysctl.rst)."""
    interface = evidence.find_nic(name, evidence.get_cluster_interface(name))
    own = str(interface["rp_filter"]) if interface else ""
    everywhere = evidence.sysctl(name, "net.ipv4.conf.all.rp_filter")
    return max(own or "0", everywhere or "0") == "1"


def rule_reverse_path(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a strict rp_filter that drops packets whose reply would leave by another interface.

    rp_filter also drops ARP requests (arp_process checks the route back). After a minute without traffic, nodes must
    ask for addresses again, so no packet arrives and the counter does not grow. Then the route alone decides.
    """
    for name in evidence.nodes:
        dropped = evidence.counter(name, REVERSE_PATH)
        if not is_rp_filter_strict(evidence, name):
            continue
        broken = {
            pair
            for source in evidence.nodes
            for r in evidence.records(source)
            if r["verdict"] != "open" and name in (pair := (source, r["node"]))
        }
        if not broken:
            continue
        interface = evidence.get_cluster_interface(name)
        routes = {to: one["dev"] for to, one in evidence.survey(name).get("routes", {}).items()}
        peers = sorted({end for pair in broken for end in pair} - {name})
        refused = {
            w["peer"]
            for w in decisions.list_odd_decisions(evidence, name)
            if w["direction"] == "in"
        }
        astray = [
            p
            for p in peers
            if routes.get(evidence.address(p), interface) != interface
            or evidence.address(p) in refused
        ]
        if not dropped and not astray:
            continue
        shown = astray or peers
        counted = f"{dropped} packets dropped" if dropped else "no packets let in"
        device = routes.get(evidence.address(shown[0]), "")
        yield Finding(
            "DG-141",
            "L2",
            f"{name} drops packets from {join_names(shown)}: they arrive on {interface}, but {name} would reply over"
            f" {device or 'another interface'} (rp_filter)",
            node=name,
            peer=join_names(shown),
            port="all",
            direction=f"{join_names(shown)} -> {name}",
            seen=f"rp_filter=1, {counted} during the probe, the route to "
            f"{evidence.address(shown[0])}: {device}",
            expected=f"the route to the peers over {interface}, or rp_filter=2",
            check=f"on {name}: ip route get {evidence.address(shown[0])}",
            fix=f"on {name}: remove the wrong route, or sysctl -w net.ipv4.conf.{interface}.rp_filter=2",
            pairs=tuple(sorted(broken if dropped else {p for p in broken if {*p} & {*astray}})),
            kinds=("sample", "range", "master", "rendezvous"),
        )


CAUSE = Cause(
    "DG-141",
    __doc__,
    find=rule_reverse_path,
    weight=970,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-156"), is_return_path),),
    cases=(
        CauseCase(
            "rp-filter", "rp_filter=1 and a route to the peer over another interface", fields=LINK
        ),
    ),
)
