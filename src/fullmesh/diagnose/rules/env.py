"""The environment as a job on each node would see it: interfaces, sizes, ranks, proxies."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.foreign_text import parse_decimal
from fullmesh.observed.survey import Nic
from fullmesh.result.findings import WARNING, Finding, join_names

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
LOOPBACK = "lo"
UNREACHED = (
    "docker",
    "virbr",
    "br-",
    "veth",
    "cni",
    "flannel",
    "cali",
    "tailscale",
    "tun",
    "lxcbr",
    "podman",
)
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def is_matched_by_nccl(value: str, name: str) -> bool:
    """Whether NCCL would take an interface: prefixes, ``=`` exact names, ``^`` all but these (NCCL, os/linux.cc)."""
    other, exact = value.startswith("^"), value.lstrip("^").startswith("=")
    wanted = [w for w in value.lstrip("^").lstrip("=").split(",") if w]
    hit = any(
        name == w.split(":")[0] if exact else name.startswith(w.split(":")[0]) for w in wanted
    )
    return hit != other


def select_interfaces(value: str, variable: str, cards: Sequence[Nic]) -> list[str]:
    """The interfaces that a variable means on a node."""
    if variable == "GLOO_SOCKET_IFNAME":
        wanted = [w.strip() for w in value.split(",") if w.strip()]
        return [card["name"] for card in cards if card["name"] in wanted]
    return [card["name"] for card in cards if is_matched_by_nccl(value, card["name"])]


def make_interface_finding(
    look: ClusterEvidence, code: str, variable: str, names: Sequence[str], what: str
) -> Finding:
    """A variable that names a useless interface."""
    value, source = look.variable(names[0], variable) or ("", "")
    wanted = look.cluster_card(names[0]) or "INTERFACE"
    fix = f"set {variable}={wanted} in {source} on {join_names(names)}"
    have = join_names([card["name"] for card in look.cards(names[0])])
    return Finding(
        code,
        "L1",
        f"{variable}={value} on {join_names(names)} {what}",
        node=names[0],
        peer=join_names(names[1:]),
        seen=f"{variable}={value} from {source}; {names[0]} has {have}",
        expected=wanted,
        fix=fix if look.assumed else f"{fix}, or {look.seen.apply('launch')}",
    )


def rule_job_interfaces(look: ClusterEvidence) -> Iterator[Finding]:
    """The interfaces that jobs are told to use exist, and are not loopback."""
    for variable in INTERFACES:
        set_on = [
            n for n in look.nodes if (look.variable(n, variable) or ("",))[0] and look.cards(n)
        ]
        taken = {
            n: select_interfaces((look.variable(n, variable) or ("",))[0], variable, look.cards(n))
            for n in set_on
        }
        absent = [n for n in set_on if not taken[n]]
        looped = [
            n
            for n in set_on
            if taken[n] and set(taken[n]) == {LOOPBACK} and len(look.plan["nodes"]) > 1
        ]
        if absent and len(absent) == len(look.nodes) and len(absent) > 1:
            yield make_interface_finding(
                look, "DG-119", variable, absent, "is an interface that no node has"
            )
        else:
            for name in absent:
                yield make_interface_finding(
                    look, "DG-120", variable, [name], "is an interface that it does not have"
                )
        if looped:
            yield make_interface_finding(
                look, "DG-121", variable, looped, "keeps every rank at home"
            )


def rule_nccl_interface(look: ClusterEvidence) -> Iterator[Finding]:
    """NCCL's own choice is an interface over which the peers can be reached."""
    for name in look.nodes:
        cards = look.cards(name)
        held = look.variable(name, "NCCL_SOCKET_IFNAME")
        if not cards or not held or not held[0]:
            continue
        taken = [
            card
            for card in cards
            if is_matched_by_nccl(held[0], card["name"])
            and card["running"]
            and card["name"] != LOOPBACK
            and card["addresses"]
        ]
        wanted = look.cluster_card(name)
        if (
            not taken
            or taken[0]["name"] == wanted
            or not wanted
            or can_reach_peers(look, name, taken[0])
        ):
            continue
        yield Finding(
            "DG-134",
            "L1",
            f"NCCL on {name} would announce {taken[0]['name']}, over which its peers cannot be reached",
            node=name,
            seen=f"NCCL_SOCKET_IFNAME={held[0]} from {held[1]}: {taken[0]['name']} {join_names(taken[0]['addresses'])}",
            expected=f"={wanted}",
            fix=f"set NCCL_SOCKET_IFNAME=={wanted} in {held[1]} on {name}"
            + ("" if look.assumed else f", or {look.seen.apply('launch')}"),
        )


def can_reach_peers(look: ClusterEvidence, name: str, card: Nic) -> bool:
    """Whether every other node has an address in a network of the card, and it is no bridge of containers."""
    if card["name"].startswith(UNREACHED):
        return False
    for text in card["addresses"]:
        try:
            network = ipaddress.ip_interface(text).network
        except ValueError:
            continue
        if network.is_link_local:
            continue
        others = [look.seen.facts(peer).get("addresses", {}) for peer in look.nodes if peer != name]
        if all(any(is_in_network(a, network) for a in held) for held in others):
            return True
    return False


def is_in_network(address: str, network: Any) -> bool:
    """Whether an address lies in a network."""
    try:
        return ipaddress.ip_address(address.split("%", maxsplit=1)[0]) in network
    except ValueError:
        return False


def find_odd_values(held: Mapping[str, str], wanted: str) -> tuple[str, list[str]]:
    """The usual value, which is the wanted one when it is a draw, and the nodes that have another."""
    counts = Counter(held.values()).most_common()
    most = counts[0][1]
    draw = [value for value, count in counts if count == most]
    usual = wanted if wanted in draw else draw[0]
    return usual, [name for name, value in held.items() if value != usual]


def rule_master_port(look: ClusterEvidence) -> Iterator[Finding]:
    """MASTER_PORT is the same everywhere."""
    held = {n: v[0] for n in look.nodes if (v := look.variable(n, "MASTER_PORT")) and v[0]}
    usual, odd = find_odd_values(held, str(look.plan["master"]["port"])) if held else ("", [])
    if odd:
        source = (look.variable(odd[0], "MASTER_PORT") or ("", ""))[1]
        yield Finding(
            "DG-128",
            "L1",
            f"MASTER_PORT is {held[odd[0]]} on {join_names(odd)} and {usual} elsewhere",
            node=odd[0],
            peer=join_names([n for n in held if n not in odd]),
            port=f"{held[odd[0]]}/tcp",
            seen=f"MASTER_PORT={held[odd[0]]} from {source}",
            expected=usual,
            fix=f"set MASTER_PORT={usual} in {source} on {join_names(odd)}",
        )


def rule_world_size(look: ClusterEvidence) -> Iterator[Finding]:
    """WORLD_SIZE and NNODES are the same everywhere, and the plan's where there is one."""
    for variable, planned in (
        ("WORLD_SIZE", look.plan["world_size"]),
        ("NNODES", look.plan["nnodes"]),
    ):
        held = {n: v[0] for n in look.nodes if (v := look.variable(n, variable)) and v[0]}
        if not held:
            continue
        usual, odd = find_odd_values(held, str(planned))
        if not odd and not look.assumed and usual != str(planned):
            usual, odd = str(planned), list(held)
        if not odd:
            continue
        source = (look.variable(odd[0], variable) or ("", ""))[1]
        yield Finding(
            "DG-131",
            "L1",
            f"{variable} is {held[odd[0]]} on {join_names(odd)}, {usual} is right: ranks would wait for "
            f"ranks that never come",
            node=odd[0],
            peer=join_names([n for n in held if n not in odd]),
            seen=f"{variable}={held[odd[0]]} from {source}",
            expected=usual,
            fix=f"set {variable}={usual} in {source} on {join_names(odd)}"
            + ("" if look.assumed else f", or {look.seen.apply('launch')}"),
        )


def rule_node_ranks(look: ClusterEvidence) -> Iterator[Finding]:
    """Every node has a rank of its own."""
    for variable in ("NODE_RANK", "GROUP_RANK"):
        held = {n: v[0] for n in look.nodes if (v := look.variable(n, variable)) and v[0]}
        for value, count in Counter(held.values()).items():
            if count < 2:  # noqa: PLR2004 (a double)
                continue
            names = [n for n, v in held.items() if v == value]
            right = {n: str(look.plan["nodes"][n]["node_rank"]) for n in names}
            wrong = [n for n in names if right[n] != value] or names[1:]
            source = (look.variable(wrong[0], variable) or ("", ""))[1]
            yield Finding(
                "DG-132",
                "L1",
                f"{variable} is {value} on {join_names(names)}: a rank is there twice and another is missing",
                node=wrong[0],
                peer=join_names([n for n in names if n not in wrong]),
                seen=f"{variable}={value} from {source}",
                expected=right[wrong[0]],
                fix=f"set {variable}={right[wrong[0]]} in {source} on {wrong[0]}"
                + ("" if look.assumed else f", or {look.seen.apply('launch')}"),
            )


def rule_running_ranks(look: ClusterEvidence) -> Iterator[Finding]:
    """The ranks of a job that runs now are complete, each once."""
    by_port: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for name in look.nodes:
        for job in look.survey(name).get("jobs", []):
            env: Mapping[str, str] = job["environment"]
            if all(parse_decimal(env.get(key)) is not None for key in ("RANK", "WORLD_SIZE")):
                by_port.setdefault(env.get("MASTER_PORT", ""), []).append((name, env))
    for port, found in by_port.items():
        by_rank: dict[str, set[str]] = {}
        for name, env in found:
            by_rank.setdefault(env["RANK"], set()).add(name)
        twice = {rank: nodes for rank, nodes in by_rank.items() if len(nodes) > 1}
        world = max(int(env["WORLD_SIZE"]) for _, env in found)
        missing = [str(r) for r in range(min(world, 65536)) if str(r) not in by_rank]
        if not twice and not missing:
            continue
        rank, nodes = next(iter(twice.items()), ("", {found[0][0]}))
        what = (
            f"rank {rank} runs on {join_names(sorted(nodes))}"
            if twice
            else f"rank {join_names(missing)} runs nowhere"
        )
        yield Finding(
            "DG-132",
            "L1",
            f"of the job at port {port or '?'} {what}",
            node=sorted(nodes)[0],
            seen=f"ranks {join_names(sorted(by_rank, key=int))} of {world}",
            expected=f"ranks 0 to {world - 1}, each once",
            fix="end the job on all nodes and start it with one NODE_RANK for each node",
            severity=WARNING,  # ranks are started and end one after the other: a moment's picture
        )


def is_proxy_excepted(text: str, address: str, names: Sequence[str]) -> bool:
    """Whether no_proxy covers a peer: itself, its network, its domain or everything."""
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        if entry in ("*", address, *names):
            return True
        if entry.startswith(".") and any(name.endswith(entry) for name in names):
            return True
        try:
            if "/" in entry and ipaddress.ip_address(address) in ipaddress.ip_network(
                entry, strict=False
            ):
                return True
        except ValueError:
            continue
    return False


def rule_proxies(look: ClusterEvidence) -> Iterator[Finding]:
    """Proxy variables make an exception for the peers: HTTP between ranks (vLLM, Ray) goes through the proxy else."""
    for name in look.nodes:
        proxy = next(((v, *h) for v in PROXIES if (h := look.variable(name, v)) and h[0]), None)
        if proxy is None or len(look.plan["nodes"]) == 1:
            continue
        held = [look.variable(name, v) for v in ("no_proxy", "NO_PROXY")]
        text = ",".join(h[0] for h in held if h)
        lacking = [
            peer
            for peer in look.peers(name)
            if look.address(peer) and not is_proxy_excepted(text, look.address(peer), [peer])
        ]
        if lacking:
            addresses = join_names([look.address(peer) for peer in lacking])
            yield Finding(
                "DG-150",
                "L1",
                f"{proxy[0]} is set on {name} and no_proxy has no exception for {join_names(lacking)}",
                node=name,
                peer=join_names(lacking),
                seen=f"{proxy[0]}={proxy[1]} from {proxy[2]}, no_proxy={text or 'not set'}",
                expected=f"no_proxy with {addresses}",
                fix=f"on {name}: add {addresses} to no_proxy in {proxy[2]}"
                + ("" if look.assumed else f", or {look.seen.apply('launch')}"),
                severity=WARNING,
            )


def rule_nccl_config_file(look: ClusterEvidence) -> Iterator[Finding]:
    """The file that NCCL is told to read is there; without it NCCL reads the account's own no more either."""
    for name in look.nodes:
        absent = look.survey(name).get("environment", {}).get("unread", "")
        if not absent:
            continue
        _, source = look.variable(name, "NCCL_CONF_FILE") or ("", "the environment")
        yield Finding(
            "DG-171",
            "L1",
            f"NCCL_CONF_FILE on {name} names {absent}, which is no file: NCCL says nothing and reads neither it nor"
            " ~/.nccl.conf",
            node=name,
            seen=f"NCCL_CONF_FILE={absent} from {source}",
            expected="a file, or no NCCL_CONF_FILE",
            fix=f"on {name}: write {absent}, or take NCCL_CONF_FILE out of {source}",
            severity=WARNING,
        )


RULES = (
    rule_nccl_config_file,
    rule_job_interfaces,
    rule_nccl_interface,
    rule_master_port,
    rule_world_size,
    rule_node_ranks,
    rule_running_ranks,
    rule_proxies,
)
