"""What nodes must not share (names, addresses, ids, keys), and what must not stay behind: ranks of an earlier job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose.rules.env import is_matched_by_nccl
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names

# What a launcher gives each process; a file gives it to all of them.
OF_A_PROCESS = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
# Files that whatever is started on the node gets its environment from.
FOR_ALL = ("/etc/environment", "/etc/profile.d/", "/etc/systemd/")
NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"
MACHINE_ID, HOST_KEYS = "machine-id", "ssh host keys"
DIGEST = 12  # of a machine-id's digest, to compare by eye
ANEW = {
    MACHINE_ID: "rm /etc/machine-id; systemd-machine-id-setup; reboot",
    HOST_KEYS: "rm /etc/ssh/ssh_host_*; ssh-keygen -A; restart sshd and take its new keys into known_hosts",
}


def group_equal_values(held: Mapping[str, str]) -> dict[str, list[str]]:
    """Value -> the nodes that have it, where there is more than one."""
    found: dict[str, list[str]] = {}
    for name, value in held.items():
        if value:
            found.setdefault(value, []).append(name)
    return {value: names for value, names in found.items() if len(names) > 1}


def rule_unique_host_names(look: ClusterEvidence) -> Iterator[Finding]:
    """Every node has a host name of its own.

    NCCL takes two ranks for ranks of one machine when host name and boot id agree (misc/utils.cc, getHostHash), and
    tries shared memory between them: containers of one machine share the boot id.
    """
    facts = {name: look.seen.facts(name) for name in look.nodes}
    held = {n: one.get("names", {}).get("hostname", "").lower() for n, one in facts.items()}
    for value, names in group_equal_values(held).items():
        one_boot = len({facts[name].get("boot", "") for name in names}) < len(names)
        takes = "tools that count machines by name take them for one"
        if one_boot:
            takes = "NCCL takes their ranks for ranks of one machine"
        yield Finding(
            "DG-159",
            "L1",
            f"{join_names(names)} have one host name, {value}: {takes}",
            node=names[1],
            peer=join_names([name for name in names if name != names[1]]),
            seen=value,
            expected="a host name for each node",
            fix=f"on {names[1]}: hostnamectl hostname NAME; or give its jobs NCCL_HOSTID={names[1]}",
            severity=ERROR if one_boot else WARNING,
        )


def rule_unique_macs(look: ClusterEvidence) -> Iterator[Finding]:
    """Every node's cluster card has a hardware address of its own."""
    cards = {name: look.card(name, look.cluster_card(name)) for name in look.nodes}
    held = {name: card["mac"] for name, card in cards.items() if card}
    for value, names in group_equal_values(held).items():
        if not value.strip("0:"):
            continue  # cards without one: loopback, tunnels
        yield Finding(
            "DG-259",
            "L2",
            f"the cluster cards of {join_names(names)} have one hardware address, {value}: a switch sends to whichever"
            " spoke last",
            node=names[1],
            peer=join_names([name for name in names if name != names[1]]),
            port="all",
            seen=value,
            expected="a hardware address for each card",
            fix=f"on {names[1]}: ip link set {look.cluster_card(names[1])} address ADDRESS; in the machine's definition"
            " where it was cloned",
            pairs=tuple((a, b) for a in names for b in names if a != b),
        )


def group_shared_identity(look: ClusterEvidence) -> dict[tuple[str, ...], dict[str, list[str]]]:
    """Nodes -> what they have in common of what each must have of its own -> its digests."""
    held: dict[tuple[str, str], list[str]] = {}
    for name in look.nodes:
        own = look.survey(name).get("identity")
        if own and own["machine_id"]:
            held.setdefault((MACHINE_ID, own["machine_id"][:DIGEST]), []).append(name)
        for key in own["host_keys"] if own else ():
            held.setdefault((HOST_KEYS, key), []).append(name)
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for (what, digest), names in held.items():
        if len(names) > 1:
            found.setdefault(tuple(names), {}).setdefault(what, []).append(digest)
    return found


def rule_cloned_nodes(look: ClusterEvidence) -> Iterator[Finding]:
    """Every node has a machine-id and ssh host keys of its own; one image that all were copied from is one finding."""
    for names, shared in group_shared_identity(look).items():
        digests = join_names([digest for held in shared.values() for digest in held])
        steps = [command for what, command in ANEW.items() if what in shared]
        yield Finding(
            "DG-162",
            "L1",
            f"{join_names(names)} have one {join_names(list(shared))}: they were copied from one image",
            node=names[1],
            peer=join_names([name for name in names if name != names[1]]),
            seen=digests,
            expected=f"{join_names(list(shared))} of its own on each node",
            fix=f"on {join_names(names[1:])}: {'; '.join(steps)}",
            severity=WARNING,
        )


def is_persistent_source(source: str) -> bool:
    """Whether a file gives a variable to whatever is started, and is not of role cluster_env, which keeps it right."""
    return source.startswith(FOR_ALL) and "fullmesh" not in source


def rule_leftover_rank_env(look: ClusterEvidence) -> Iterator[Finding]:
    """No file gives every process the rank or the size of one job."""
    for name in look.nodes:
        found = {
            variable: held
            for variable in OF_A_PROCESS
            if (held := look.variable(name, variable)) and held[0] and is_persistent_source(held[1])
        }
        if not found:
            continue
        sources = list(dict.fromkeys(source for _, source in found.values()))
        shown = ", ".join(f"{variable}={value}" for variable, (value, _) in found.items())
        yield Finding(
            "DG-160",
            "L1",
            f"{join_names(sources)} on {name} gives {join_names(list(found))} to every process: a job that no launcher"
            " numbers takes them for its own",
            node=name,
            seen=f"{shown} from {join_names(sources)}",
            expected="none of them in a file",
            fix=f"on {name}: take {join_names(list(found))} out of {join_names(sources)}",
            severity=WARNING,
        )


def rule_excluded_interface(look: ClusterEvidence) -> Iterator[Finding]:
    """NCCL_SOCKET_IFNAME does not leave the cluster's card out: jobs would run over another network, if at all."""
    for name in look.nodes:
        held, own = look.variable(name, NCCL_INTERFACE), look.cluster_card(name)
        if not held or not held[0].startswith("^") or not own or is_matched_by_nccl(held[0], own):
            continue
        yield Finding(
            "DG-161",
            "L1",
            f"{NCCL_INTERFACE}={held[0]} on {name} leaves {own} out, the card of {look.address(name)}",
            node=name,
            seen=f"{NCCL_INTERFACE}={held[0]} from {held[1]}",
            expected=f"={own}",
            fix=f"on {name}: set {NCCL_INTERFACE}=={own} in {held[1]}"
            + ("" if look.assumed else f", or {look.seen.apply('launch')}"),
            severity=WARNING,
        )


RULES = (
    rule_unique_host_names,
    rule_unique_macs,
    rule_cloned_nodes,
    rule_leftover_rank_env,
    rule_excluded_interface,
)
