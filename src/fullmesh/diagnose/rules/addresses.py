"""Addresses: MASTER_ADDR as each node sees it, one address on two machines, families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.observed.survey import Neighbour
from fullmesh.result.findings import Finding, join_names

SHARED_MACS = ("12:34:56:78:9a:bc",)  # Azure's fabric answers ARP for every machine with this one
LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def is_master_address(look: ClusterEvidence, address: str) -> bool:
    """Whether the master has the address; of nodes that nobody planned any may be the master."""
    if look.assumed:
        return any(look.holds(name, address) for name in look.nodes)
    if look.master in look.nodes:
        return look.holds(look.master, address) or address == look.address(look.master)
    return address == look.address(look.master)


def check_master_address(look: ClusterEvidence, name: str, value: str) -> tuple[str, str, str]:
    """Code, what is wrong and what was seen of a node's MASTER_ADDR; empty when it is fine."""
    if value in LOCAL_NAMES or has_loopback_prefix(value):
        return "DG-125", "is this node itself on every node", value
    found = look.survey(name).get("master_answers")
    if found is None:  # it was looked up, and the node did not come back to say what it heard
        return "", "", ""
    if not found:
        return "DG-127", "is a name that it cannot resolve", f"{value}: no answer"
    if has_loopback_prefix(found[0]) and name != look.master:
        return "DG-124", "leads to loopback there", f"{value}: {found[0]}"
    if not has_loopback_prefix(found[0]) and not is_master_address(look, found[0]):
        owner = next((n for n in look.nodes if look.holds(n, found[0])), "")
        whose = f"belongs to {owner}, not to the master" if owner else "is no node's address"
        return "DG-126", whose, f"{value}: {found[0]}" if found[0] != value else value
    return "", "", ""


def rule_master_address(look: ClusterEvidence) -> Iterator[Finding]:
    """MASTER_ADDR, as a job on each node would see it, leads to the master."""
    if len(look.plan["nodes"]) == 1:
        return
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for name in look.nodes:
        held = look.variable(name, "MASTER_ADDR")
        if not held or not held[0]:
            continue
        fault = check_master_address(look, name, held[0])
        if fault[0]:
            grouped.setdefault((*fault, held[1]), []).append(name)
    for (code, what, seen, source), names in grouped.items():
        yield Finding(
            code,
            "L1",
            f"MASTER_ADDR on {join_names(names)} {what}",
            node=names[0],
            peer=look.master if look.master not in names else "",
            seen=f"MASTER_ADDR={seen} from {source}",
            expected=look.address(look.master),
            fix=f"set MASTER_ADDR={look.address(look.master)} in {source} on {join_names(names)}"
            + ("" if look.assumed else f", or {look.seen.apply('launch')}"),
        )


def collect_neighbours(look: ClusterEvidence) -> dict[str, list[tuple[str, Neighbour]]]:
    """Address -> who has a hardware address for it that somebody answered, and which."""
    found: dict[str, list[tuple[str, Neighbour]]] = {}
    for name in look.plan["nodes"]:
        links = look.seen.nodes.get(name, {}).get("links", {})
        for address, entry in links.get("neighbours", {}).get("entries", {}).items():
            if entry["mac"] and not entry.get("by_hand"):
                found.setdefault(address, []).append((name, entry))
    return found


def find_foreign_macs(
    look: ClusterEvidence, name: str, seen: Mapping[str, Sequence[tuple[str, Neighbour]]]
) -> dict[str, list[str]]:
    """MACs that answered for a node's address and are none of its own -> who saw them; *seen*: what all learnt."""
    own = {card["mac"] for card in look.cards(name)}
    if not own:
        return {}
    found: dict[str, list[str]] = {}
    for mac in look.survey(name).get("duplicates", []):
        found.setdefault(mac, []).append(name)
    for other, entry in seen.get(look.address(name), []):
        broken = any(r["node"] == name and r["verdict"] != "open" for r in look.records(other))
        if other != name and broken:
            found.setdefault(entry["mac"], []).append(other)
    return {m: who for m, who in found.items() if m not in own and m not in SHARED_MACS}


def make_duplicate_finding(look: ClusterEvidence, name: str, mac: str, holder: str) -> Finding:
    """A node of the plan answers for another one's address, as it does for every address of its own on any card."""
    address, card = look.address(name), look.cluster_card(holder)
    if look.holds(holder, address):
        what, fix = "has", f"ip -o addr show to {address}; ip addr del {address}/LENGTH dev CARD"
    else:
        what, fix = "answers for", f"sysctl net.ipv4.conf.{card}.proxy_arp; ip neigh show proxy"
    return Finding(
        "DG-140",
        "L2",
        f"{holder} {what} the address {address} of {name}, too",
        node=holder,
        peer=name,
        direction=f"{holder} <-> {name}",
        seen=f"{mac} of {holder} answered for it",
        expected=f"{address} on {name} alone",
        fix=f"on {holder}: {fix}",
    )


def find_stale_neighbour(
    look: ClusterEvidence, name: str, mac: str, who: Sequence[str]
) -> Finding | None:
    """One node alone has another card for a peer's address, and nobody answers for that address but the peer.

    The peer has asked the wire itself (RFC 5227): whoever had answered once would answer now.
    """
    if len(who) != 1 or who[0] == name or look.survey(name).get("duplicates") != []:
        return None
    holder, address = who[0], look.address(name)
    return Finding(
        "DG-157",
        "L2",
        f"{holder} sends what is for {name} to {mac}, which is not {name}'s card, and nobody else on the wire answers"
        f" for {address}: an entry that was put there, or is of before",
        node=holder,
        peer=name,
        port="all",
        direction=f"{holder} -> {name}",
        seen=f"{address} lladdr {mac} on {holder} alone",
        expected=join_names(
            [c["mac"] for c in look.cards(name) if c["name"] == look.cluster_card(name)]
        ),
        fix=f"on {holder}: ip neigh del {address} dev {look.cluster_card(holder)}; if it comes back, find who sets it",
        pairs=((holder, name),),
    )


def rule_duplicate_address(look: ClusterEvidence) -> Iterator[Finding]:
    """Another machine answers for a node's cluster address."""
    seen = collect_neighbours(look)
    macs = {card["mac"]: name for name in look.nodes for card in look.cards(name)}
    for name in look.nodes:
        found = find_foreign_macs(look, name, seen)
        if not found:
            continue
        mac, who = next(iter(found.items()))
        if mac in macs:
            yield make_duplicate_finding(look, name, mac, macs[mac])
            continue
        stale = find_stale_neighbour(look, name, mac, who)
        if stale:
            yield stale
            continue
        yield Finding(
            "DG-140",
            "L2",
            f"another machine has the address {look.address(name)} of {name}, too: {mac} answers for it",
            node=name,
            peer=join_names(look.peers(name)),
            seen=f"{mac} answered {join_names(who)}",
            expected=join_names(
                [c["mac"] for c in look.cards(name) if c["name"] == look.cluster_card(name)]
            ),
            fix=f"on {who[0]}: arping -D -I {look.cluster_card(who[0])} {look.address(name)}; find "
            f"{mac} in the switch's"
            " table and give that machine another address",
        )


def is_link_local(address: str) -> bool:
    """Whether peers would need a scope to reach it."""
    return address.lower().startswith("fe80:")


def find_gloo_address(look: ClusterEvidence, name: str) -> str:
    """The address that Gloo on a node would announce to its peers, "" when it is not known.

    Of the interface in GLOO_SOCKET_IFNAME, else the first of the node's own name that is on the node (gloo, device.cc).
    """
    held = look.variable(name, "GLOO_SOCKET_IFNAME")
    if held and held[0]:
        card = look.card(name, held[0].split(",")[0])
        listed = [a.split("/")[0] for a in card["addresses"]] if card else []
        return next((a for a in listed if not is_link_local(a)), "")
    # A link-local address needs a scope to be bound, so Gloo goes on to the next; nss-myhostname lists them first.
    answers = [a for a in look.survey(name).get("own_answers", []) if not is_link_local(a)]
    return next((a for a in answers if look.holds(name, a)), "")


def rule_address_families(look: ClusterEvidence) -> Iterator[Finding]:
    """All nodes announce the same family: Gloo stops at once with 'ss1.ss_family == ss2.ss_family'."""
    spoken = {name: find_gloo_address(look, name) for name in look.nodes}
    families = {
        n: "IPv6" if ":" in a else "IPv4"
        for n, a in spoken.items()
        if a and not has_loopback_prefix(a)
    }
    counts = Counter(families.values())
    if len(counts) < 2:  # noqa: PLR2004 (two families)
        return
    (first, many), (second, few) = counts.most_common(2)
    planned = "IPv6" if look.plan["family"] == "ipv6" else "IPv4"
    usual = planned if many == few and planned in (first, second) else first
    odd = [name for name, family in families.items() if family != usual]
    yield Finding(
        "DG-136",
        "L1",
        f"{join_names(odd)} announces an {families[odd[0]]} address, the others {usual}",
        node=odd[0],
        peer=join_names([n for n in families if n not in odd]),
        seen=f"{odd[0]}: {spoken[odd[0]]}",
        expected=f"an {usual} address, such as {look.address(odd[0])}",
        fix=f"on {odd[0]}: set GLOO_SOCKET_IFNAME={look.cluster_card(odd[0]) or 'INTERFACE'}, or give its name"
        f" {look.address(odd[0])} in /etc/hosts",
    )


RULES = (rule_master_address, rule_duplicate_address, rule_address_families)
