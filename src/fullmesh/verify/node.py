"""Evaluate checks L0, L1 and L6: the facts of each node."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from fullmesh.observed.ports import PortRange, parse_port_ranges
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify import schedule
from fullmesh.verify import software as verify_software
from fullmesh.verify.model import ClusterObservations

FILES_PER_RANK = 4  # descriptors per peer and rank (faults.md 47)
PAIR = 2
RUN_RANGE = "net.ipv4.ip_local_port_range"
RUN_RESERVED = "net.ipv4.ip_local_reserved_ports"


def list_node_links(seen: ClusterObservations, name: str) -> tuple[tuple[str, str], ...]:
    """List all links of a node in both directions. With many nodes, the node alone is enough."""
    if len(seen.plan["nodes"]) > schedule.MANY:
        return ()
    peers = [peer for peer in seen.plan["nodes"] if peer != name]
    return tuple(pair for peer in peers for pair in ((name, peer), (peer, name)))


def rule_cluster_address(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the cluster address is on the interface of the plan."""
    for name, node in seen.plan["nodes"].items():
        if name in seen.left_out():
            continue
        held = seen.facts(name).get("addresses", {})
        where = held.get(node["address"], "")
        wanted = node.get("interface", "")
        if not where:
            yield Finding(
                "VC-121",
                "L0",
                f"{name} does not have its cluster address",
                node=name,
                seen=join_names(sorted(a for a in held if a not in ("127.0.0.1", "::1"))),
                expected=node["address"],
                fix=seen.apply("network"),
                pairs=list_node_links(seen, name),
            )
        elif wanted and where != wanted:
            yield Finding(
                "VC-122",
                "L0",
                f"{name} has its cluster address on a different interface than in the plan",
                node=name,
                seen=where,
                expected=wanted,
                fix=seen.apply("network"),
            )


def rule_answer_format(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that answers match their types. Rules do not see fields that do not match."""
    for name, faults in seen.odd.items():
        yield Finding(
            "VC-307",
            "L0",
            f"the answer of {name} does not match this version's types, so a rule may have missed something",
            node=name,
            seen=join_names(faults, 2),
            expected="the types in module_utils/fullmesh/schema",
            check="ansible-config dump | grep -E 'MODULE_(PATH|UTILS_PATH)'",
            fix="remove the modules of another version from that path. If there are none, report it with result.json",
            severity=WARNING,
        )


def rule_planned_hostname(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the host name is the one in the plan, if the plan has one."""
    for name, node in seen.plan["nodes"].items():
        wanted = node.get("hostname", "")
        found = seen.facts(name).get("names", {}).get("hostname", "")
        if wanted and found != wanted:
            yield Finding(
                "VC-123",
                "L0",
                f"the host name of {name} differs from the plan",
                node=name,
                seen=found,
                expected=wanted,
                fix=seen.apply("network"),
            )


def rule_name_resolution(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that every name of the plan resolves to the cluster address on every node."""
    wanted = {n: h["address"] for h in seen.plan["hosts"] for n in h["names"]}
    for name in seen.plan["nodes"]:
        answers = seen.facts(name).get("names", {}).get("plan", {})
        wrong = [n for n, a in wanted.items() if n in answers and (answers[n] or [""])[0] != a]
        if wrong:
            first = answers[wrong[0]]
            said = "no answer in time" if first is None else join_names(first) or "unknown name"
            yield Finding(
                "VC-101",
                "L1",
                f"{name} resolves {join_names(wrong)} to an address other than the cluster address",
                node=name,
                peer=join_names(wrong),
                seen=f"{wrong[0]}: {said}",
                expected=f"{wrong[0]}: {wanted[wrong[0]]}",
                check=f"on {name}: getent ahosts {wrong[0]}",
                fix=seen.apply("network"),
            )


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


def compute_clock_offsets(seen: ClusterObservations) -> dict[str, float]:
    """Return each node's clock offset from the master's, as measured in the handshakes."""
    reference = str(seen.plan["master"]["node"])
    best: dict[str, tuple[float, float]] = {reference: (0.0, 0.0)}

    def note(name: str, error: float, offset: float) -> None:
        if name not in best or error < best[name][0]:
            best[name] = (error, offset)

    for name, node in seen.nodes.items():
        swept = node.get("links", {}).get("swept", {})
        if "clock" in swept and name != reference:
            offset, error = swept["clock"]
            note(name, error, -offset)
        for link in node.get("links", {}).get("links", []):
            if link["offset"] is None:
                continue
            if name == reference:
                note(link["node"], link["offset_error"], link["offset"])
            elif link["node"] == reference:
                note(name, link["offset_error"], -link["offset"])
    return {name: value for name, (_, value) in best.items()}


def rule_clock_offsets(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that clocks agree. c10d compares wall clocks and silently drops a node that is 15 s behind."""
    offsets = compute_clock_offsets(seen)
    reference = str(seen.plan["master"]["node"])
    # With 3 nodes or more, the majority is right. With 2, the master counts as right.
    base = median(offsets.values()) if len(offsets) > PAIR else 0.0
    for name, offset in offsets.items():
        apart = offset - base
        if abs(apart) > seen.clock_limit:
            yield Finding(
                "VC-103",
                "L1",
                f"the clock of {name} is {abs(apart):.1f} s {'ahead' if apart > 0 else 'behind'}",
                node=name,
                peer=reference if name != reference else "",
                seen=f"{apart:+.1f} s",
                expected=f"within {seen.clock_limit:g} s (torchrun drops a node at 15 s)",
                fix=f"on {name}: chronyc makestep. Then {seen.apply('network')}",
            )


def get_versions(seen: ClusterObservations, name: str) -> dict[str, str]:
    """Return the versions that must agree."""
    found = seen.facts(name).get("versions", {})
    python = ".".join(str(found.get("python", "")).split(".")[:2])
    system = seen.nodes.get(name, {}).get("node", {}).get("nccl", {}).get("version", "")
    return {
        "torch": str(found.get("torch", "")),
        "python": python,
        "nccl (system)": str(system),
        "nccl (torch's own)": str(found.get("torch_nccl", "")),
    }


def rule_equal_versions(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that all nodes have one version of torch, Python and NCCL.

    A mixture fails with 'message truncated', or does not fail visibly.
    """
    table = {name: get_versions(seen, name) for name in seen.plan["nodes"]}
    for what in ("torch", "python", "nccl (system)", "nccl (torch's own)"):
        held = {name: row[what] for name, row in table.items() if row[what]}
        if len(set(held.values())) < PAIR:
            continue
        usual = Counter(held.values()).most_common(1)[0][0]
        odd = [name for name, value in held.items() if value != usual]
        rest = [name for name, value in held.items() if value == usual]
        yield Finding(
            "VC-104",
            "L1",
            f"{what} is {held[odd[0]]} on {join_names(odd)} and {usual} on {join_names(rest)}",
            node=odd[0],
            peer=join_names(rest),
            seen=held[odd[0]],
            expected=usual,
            fix=seen.apply("packages"),
        )


def rule_open_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that processes may open enough files. The errors of too few never name the cause."""
    need = FILES_PER_RANK * int(seen.plan["world_size"])
    for name in seen.plan["nodes"]:
        soft = seen.facts(name).get("limits", {}).get("nofile")
        if soft is not None and 0 <= soft < need:
            yield Finding(
                "VC-105",
                "L1",
                f"a process on {name} may open {soft} files, {need} are needed",
                node=name,
                seen=str(soft),
                expected=f"at least {need}",
                fix=f"{seen.apply('tuning')} (a login from before the change keeps its limit)",
            )


def rule_interface_state(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the cluster interface is up and has the same MTU on all nodes."""
    sizes: dict[str, int] = {}
    for name in seen.plan["nodes"]:
        card = seen.facts(name).get("interface", {})
        if card.get("exists") and not card["up"]:
            yield Finding(
                "VC-106",
                "L1",
                f"the cluster interface of {name} has no carrier",
                node=name,
                seen=f"{card['name']} down",
                expected=f"{card['name']} up",
                fix=f"on {name}: ip link set {card['name']} up, or reconnect the cable or switch port",
                pairs=list_node_links(seen, name),
            )
        if card.get("mtu"):
            sizes[name] = int(card["mtu"])
    if len(set(sizes.values())) > 1:
        usual = Counter(sizes.values()).most_common(1)[0][0]
        odd = [name for name, size in sizes.items() if size != usual]
        yield Finding(
            "VC-110",
            "L1",
            f"the MTU of {join_names(odd)} differs from the others'",
            node=odd[0],
            seen=str(sizes[odd[0]]),
            expected=str(usual),
            fix="set mtu in fullmesh_links, alike on all nodes and switches",
            severity=WARNING,
        )


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


def rule_free_ports(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no other program uses the master and rendezvous ports."""
    for name in seen.plan["nodes"]:
        for port in seen.nodes.get(name, {}).get("node", {}).get("ports", []):
            # a service that runs has its own port
            if not port["error"] or port["kind"] in ("sample", "service"):
                continue
            holder = port["holder"] or port["error"]
            yield Finding(
                "VC-109",
                "L1",
                f"the {port['kind']} port {port['port']} on {name} is taken by {holder}",
                node=name,
                port=str(port["port"]),
                seen=holder,
                expected="free",
                check=f"on {name}: ss -ltnp 'sport = :{port['port']}'",
                fix=f"on {name}: end that program, or choose another port",
            )


def rule_nccl_address(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that NCCL, without a GPU, uses the cluster address and a port of the range."""
    data = seen.plan["data_ports"]
    for name in seen.plan["nodes"]:
        said = seen.nodes.get(name, {}).get("node", {}).get("nccl", {})
        if not said or said.get("reason") == "missing":
            continue
        if said["reason"]:
            yield Finding(
                "VC-603",
                "L6",
                f"NCCL on {name} could not open its bootstrap listener ({said['reason']})",
                node=name,
                seen=said["error"],
                expected="an address and a port",
                check=f"on {name}: set NCCL_DEBUG=INFO and look for 'Bootstrap'",
                fix=seen.apply("packages"),
            )
        elif said["address"] != seen.address(name):
            yield Finding(
                "VC-601",
                "L6",
                f"NCCL on {name} announces a different address than the cluster's",
                node=name,
                seen=said["address"],
                expected=seen.address(name),
                fix=f"{seen.apply('launch')} (it writes NCCL_SOCKET_IFNAME)",
            )
        elif not data["first"] <= said["port"] <= data["last"]:
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


def explain_no_nccl(seen: ClusterObservations) -> str:
    """Return why L6 is skipped, or ""."""
    answers: list[Mapping[str, Any]] = [
        seen.nodes.get(name, {}).get("node", {}).get("nccl", {}) for name in seen.plan["nodes"]
    ]
    if not any(answers):
        return "NCCL was not tested: no node has its cluster address"
    if all(not said or said.get("reason") == "missing" for said in answers):
        return "no system library libnccl.so.2 on any node"
    return ""


def rule_nccl_everywhere(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the library is on all nodes or on none."""
    lacking = [
        name
        for name in seen.plan["nodes"]
        if seen.nodes.get(name, {}).get("node", {}).get("nccl", {}).get("reason") == "missing"
    ]
    if lacking and not explain_no_nccl(seen):
        yield Finding(
            "VC-604",
            "L6",
            f"{join_names(lacking)} lack(s) the NCCL library that the others have",
            node=lacking[0],
            seen="no libnccl.so.2",
            expected="the same library on every node",
            fix=seen.apply("packages"),
        )


RULES = (
    rule_answer_format,
    rule_cluster_address,
    rule_planned_hostname,
    rule_name_resolution,
    rule_own_name_loopback,
    rule_clock_offsets,
    rule_equal_versions,
    *verify_software.RULES,
    rule_open_files,
    rule_interface_state,
    rule_pinned_range,
    rule_reserved_ports,
    rule_sample_ports_given,
    rule_free_ports,
    rule_nccl_address,
    rule_nccl_everywhere,
)


def check_nodes(seen: ClusterObservations) -> list[Finding]:
    """Return all findings of these checks."""
    return [finding for rule in RULES for finding in rule(seen)]
