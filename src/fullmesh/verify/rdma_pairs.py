"""Choose the pairs of RDMA devices that the probe of check L2 tries: on each rail, in both directions."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import ProbePort, RdmaResult, RdmaTarget
from fullmesh.observed.survey import NodeSurvey, RdmaPort
from fullmesh.verify.nccl_ways import UP, is_port_selected

MOST = 64  # pairs that each node tries, next neighbours first, and as many spare ones
PORTS_MOST = 64  # of a node, more than any has
ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
IPV4 = "0000:0000:0000:0000:0000:ffff:"
PortPair = tuple[RdmaPort, RdmaPort]


def list_job_ports(survey: NodeSurvey) -> list[RdmaPort]:
    """List the RDMA ports that NCCL uses on a node: active, and selected by NCCL_IB_HCA if it is set.

    An EFA has another link layer, and no reliable connections.
    """
    hca = survey.get("environment", {}).get("values", {}).get("NCCL_IB_HCA", {"value": ""})["value"]
    return [
        port
        for port in survey.get("rdma", [])
        if port["state"] == UP
        and port["layer"] in (ETHERNET, INFINIBAND)
        and (not hca or is_port_selected(hca, port))
    ][:PORTS_MOST]


def choose_gid(port: RdmaPort) -> str:
    """Return the GID that a job uses, "" for none: of InfiniBand the first, else RoCE v2 with a routable address."""
    if port["layer"] != ETHERNET:
        return next((gid["gid"] for gid in port["gids"] if is_gid(gid["gid"])), "")
    held = [
        gid["gid"] for gid in port["gids"] if "v2" in gid["type"] and not is_link_local(gid["gid"])
    ]
    return next((gid for gid in held if gid.startswith(IPV4)), held[0] if held else "")


def choose_link_local_gid(port: RdmaPort) -> str:
    """Return a RoCE v2 GID that needs no address on the interface, "" for none."""
    held = (gid["gid"] for gid in port["gids"] if "v2" in gid["type"] and is_link_local(gid["gid"]))
    return next(held, "")


def is_gid(text: str) -> bool:
    """Return whether a text is a GID, which has the form of an IPv6 address."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_link_local(gid: str) -> bool:
    """Return whether a GID is link-local, or not a GID at all."""
    return not is_gid(gid) or ipaddress.IPv6Address(gid).is_link_local


def gid_to_address(gid: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IP address of a GID."""
    found = ipaddress.IPv6Address(gid)
    return found.ipv4_mapped or found


def list_networks(survey: NodeSurvey) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """List the networks of a node's interfaces."""
    found = []
    for nic in survey.get("interfaces", []):
        for address in nic["addresses"]:
            try:
                found.append(ipaddress.ip_interface(address).network)
            except ValueError:
                continue
    return found


def pair_ports(own: NodeSurvey, peer: NodeSurvey) -> list[PortPair]:
    """Pair the ports of two nodes: those in one network first, in their order, then the others in their order."""
    networks = list_networks(own)
    mine = [port for port in list_job_ports(own) if choose_gid(port)]
    theirs = [port for port in list_job_ports(peer) if choose_gid(port)]
    found: list[PortPair] = []

    def share_network(one: RdmaPort, other: RdmaPort) -> bool:
        ends = [gid_to_address(choose_gid(port)) for port in (one, other)]
        return any(all(end in network for end in ends) for network in networks)

    for match in (share_network, lambda one, other: one["layer"] == other["layer"]):
        for port in [one for one in mine if not any(pair[0] is one for pair in found)]:
            free = [one for one in theirs if not any(pair[1] is one for pair in found)]
            other = next((one for one in free if match(port, one)), None)
            if other is not None:
                found.append((port, other))
    return found


def list_spare_pairs(pairs: Sequence[PortPair]) -> Iterator[PortPair]:
    """Pair each port with those of the other rails, which it reaches if the cables are swapped."""
    for own, right in pairs:
        for _, other in pairs:
            if other is not right and choose_link_local_gid(own) and choose_link_local_gid(other):
                yield own, other


def find_swapped_nodes(pairs: Collection[frozenset[str]]) -> tuple[list[str], bool]:
    """Return the nodes whose cables are swapped, and whether that is certain. Otherwise it can be any of them.

    Args:
        pairs: the nodes that reach each other on the wrong interfaces. A node with swapped cables is in a pair with
            each node without.
    """
    found: list[str] = []
    left = {*pairs}
    while left:
        counted = Counter(name for pair in sorted(map(sorted, left)) for name in pair)
        top = [name for name, count in counted.items() if count == max(counted.values())]
        if any(pair <= {*top} for pair in left):
            return sorted({name for pair in pairs for name in pair}), False
        found += top
        left = {pair for pair in left if pair.isdisjoint(top)}
    return sorted(found), True


def has_running_job(survey: NodeSurvey) -> bool:
    """Return whether ranks run on a node."""
    return bool(survey.get("jobs"))


def order_peers(names: Sequence[str], name: str) -> list[str]:
    """Return the other nodes, the next neighbours in the plan's order first."""
    place = list(names).index(name)
    return [*names[place + 1 :], *names[:place]]


def build_rdma_targets(
    plan: ClusterPlan,
    opened: Mapping[str, Sequence[ProbePort]],
    surveys: Mapping[str, NodeSurvey],
) -> dict[str, list[RdmaTarget]]:
    """Return the pairs that each node tries. Nodes that run a job do not take part.

    Args:
        plan: of the cluster.
        opened: the listeners of each node, over which both ends agree.
        surveys: of the nodes that have RDMA devices.
    """
    idle = [
        name for name in plan["nodes"] if name in surveys and not has_running_job(surveys[name])
    ]
    found: dict[str, list[RdmaTarget]] = {}
    for name in idle:
        targets: list[RdmaTarget] = []
        spare: list[RdmaTarget] = []
        for peer in order_peers(idle, name):
            listener = next((p["port"] for p in opened.get(peer, []) if not p["error"]), 0)
            if not listener:
                continue
            pairs = pair_ports(surveys[name], surveys[peer])
            if len(targets) + len(pairs) > MOST:
                break
            end = (peer, plan["nodes"][peer]["address"], listener)
            targets += [make_target(*end, pair) for pair in pairs]
            spare += [make_target(*end, pair, spare=True) for pair in list_spare_pairs(pairs)]
        if targets:
            found[name] = targets + spare[:MOST]
    return found


def make_target(
    peer: str, address: str, listener: int, pair: PortPair, *, spare: bool = False
) -> RdmaTarget:
    """Describe a pair to try."""
    own, other = pair
    choose = choose_link_local_gid if spare else choose_gid
    return {
        "node": peer,
        "device": own["device"],
        "port": own["port"],
        "gid": choose(own),
        "peer_device": other["device"],
        "peer_port": other["port"],
        "peer_gid": choose(other),
        "spare": spare,
        "address": address,
        "tcp_port": listener,
    }


def build_rate_targets(
    plan: ClusterPlan, opened: Sequence[ProbePort], peer: str, tried: Sequence[RdmaResult]
) -> list[RdmaTarget]:
    """Return the pairs of devices with *peer* whose rates are measured: those whose try passed.

    Args:
        plan: of the cluster.
        opened: the listeners of the peer.
        peer: the other node.
        tried: the tries of this node.
    """
    listener = next((one["port"] for one in opened if not one["error"]), 0)
    return [
        {
            "node": peer,
            "device": one["device"],
            "port": one["port"],
            "gid": one["gid"],
            "peer_device": one["peer_device"],
            "peer_port": one["peer_port"],
            "peer_gid": one["peer_gid"],
            "spare": False,
            "address": plan["nodes"][peer]["address"],
            "tcp_port": listener,
        }
        for one in tried
        if one["node"] == peer and not (one["spare"] or one["own"]["step"] or one["peer"]["step"])
    ]


def explain_untried(surveys: Mapping[str, NodeSurvey]) -> dict[str, str]:
    """Map nodes that take no part in the tries to the reason, if any node has an active RDMA port."""
    ready = [name for name, survey in surveys.items() if list_job_ports(survey)]
    found = {}
    for name, survey in surveys.items() if ready else ():
        if has_running_job(survey):
            found[name] = "a job runs on the node"
        elif name not in ready:
            found[name] = "no RDMA port is active and selected by NCCL_IB_HCA"
        elif not any(choose_gid(port) for port in list_job_ports(survey)):
            found[name] = "no RDMA port has a RoCE v2 GID of an address"
    return found
