"""Compare the survey of the nodes with the cluster plan before anything is changed. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Required, TypedDict

from fullmesh import contract
from fullmesh.faults import Fault
from fullmesh.model import addresses, auto, membership, rails, reach, services
from fullmesh.model.node_view import find_interface_name, find_link_interface, list_matching_nics
from fullmesh.model.plan_ports import find_port_count_faults
from fullmesh.model.types import ClusterPlan, PlanLink
from fullmesh.observed.node import (
    Accelerators,
    Facts,
    Interface,
    NodeFacts,
    Observations,
    ResolvedSettings,
)
from fullmesh.observed.ports import PortRange
from fullmesh.plain import to_json_value
from fullmesh.roles import accelerators

CODES = {
    "PR-101": "A node cannot be reached",
    "PR-102": "Fullmesh reached the node but could not survey it (no sudo, no Python, a broken module)",
    "PR-103": "The operating system is not supported",
    "PR-104": "The interface that the inventory names is not on the node",
    "PR-105": "No interface is named, and none has the address",
    "PR-106": "Another interface of the node carries the cluster address",
    "PR-107": "The survey did not run as root",
    "PR-109": "The node has too little free space",
    "PR-110": "The clock is far from the controller's",
    "PR-111": "Two inventory hosts are one machine",
    "PR-112": "The node has no systemd",
    "PR-113": "The node's Python is too old for Fullmesh's programs",
    "PR-114": "An inventory host's own name is another host's inventory name",
    "PR-115": "Some nodes have GPUs and some have none, so `auto` cannot choose a torch build",
    "PR-116": "NVIDIA GPUs have no driver, or one on which no torch build with a lock runs",
    "PR-117": "The nodes have different numbers of GPUs, so `auto` cannot choose the ranks",
    "PR-118": "NVIDIA's driver shows another number of GPUs than the PCI bus",
    "PR-119": "The node has too little memory for the ranks",
    "PR-123": "An interface of a node is in the network of WireGuard",
    "PR-122": "A service's range has too few ports for the CPUs of a node",
    "PR-121": "A package manager or cloud-init is still running",
    "PR-180": "A run leaves out nodes that need the new list of nodes",
    "PR-120": "The ranks of a node outside this run are `auto`",
}

# The systems that the roles have variables for. docs/development/tested.md lists the tests on each.
SUPPORTED: Mapping[str, Sequence[str]] = {
    "CentOS": ("9", "10"),
    "RedHat": ("9", "10"),
    "Rocky": ("9", "10"),
    "AlmaLinux": ("9", "10"),
    "Ubuntu": ("22", "24", "26"),
    "Debian": ("12", "13"),
}
# EL 9's Python. ansible-core 2.19 supports 3.8 and newer on managed nodes (its porting guide).
LOWEST_PYTHON = (3, 9)
NEEDED_PYTHON = ".".join(map(str, LOWEST_PYTHON))
NEWER_PYTHON = "Set ansible_python_interpreter to a newer one (EL 8: dnf install python39)"
# The venv takes 1.3 GB with torch's CPU build and 7 GB with CUDA. During the installation, wheels take the same again.
NEEDED_BYTES = 3 * 1000**3
NEEDED_FOR_GPUS = 14 * 1000**3
# A rank that has only loaded torch takes 229 MB (CPU build, VmHWM). The system and a first tensor need some more.
RANK_BYTES = 400 * 1000**2
# The c10d rendezvous drops a node whose clock is 15 s off and trains on without it (measured). chrony fixes small
# offsets, so only a clock that is far off is an error here.
CLOCK_SECONDS = 3600


class PreflightInput(TypedDict, total=False):
    """One survey of the nodes.

    Attributes:
        now: the controller's clock, seconds since 1970.
        asked: host -> the result that node_facts would have registered, for hosts that were queried at once.
        converge: ``fullmesh_converge`` for hosts without their own value.
    """

    now: Required[float]
    asked: Mapping[str, Any]
    converge: str


class PreflightVerdict(TypedDict):
    """The result of preflight.

    Attributes:
        faults: coded sentences. If there are any, nothing is changed.
        plan: the plan with all ``auto`` values resolved.
        unused: notes about accelerators that stay unused.
        parted: the hosts by group: configured in this run, updated with the list of nodes, or unchanged.
    """

    faults: list[str]
    plan: ClusterPlan
    unused: list[str]
    parted: dict[membership.Group, list[str]]


def judge_preflight(
    plan: ClusterPlan, hostvars: Any, hosts: Sequence[str], given: PreflightInput
) -> PreflightVerdict:
    """Evaluate the answers of *hosts*.

    Args:
        plan: the cluster plan.
        hostvars: Ansible's. ``__preflight`` is the registered result of node_facts, ``__preflight_python`` the
            version of
            the interpreter on a node without a result.
        hosts: the hosts of this run (``--limit`` may leave some out).
        given: the time, and the answers of the hosts that were queried at once.
    """
    observed, faults = collect_node_facts(hostvars, hosts, given.get("asked", {}))
    made, undecided = resolve_plan(plan, observed)
    faults += undecided
    for host, facts in observed.items():
        faults += find_node_faults(made, host, facts["ansible_facts"], given["now"])
    faults += find_twin_faults(observed)
    faults += find_node_name_faults(plan, observed)
    members = membership.build_membership(made)
    parted: dict[membership.Group, list[str]] = {"drifted": [], "peers": [], "converged": []}
    for host, said in observed.items():
        why = [*said["drift"], *find_choice_drift(made, said["resolved"])]
        converge = str(hostvars[host].get("fullmesh_converge", given.get("converge")))
        parted[membership.choose_run_group(members, why, said["members"], converge)].append(host)
    return {
        "faults": [str(fault) for fault in sorted(set(faults))],
        "plan": made,
        "unused": find_unused_accelerators(made, observed),
        "parted": parted,
    }


def list_group_members(found: PreflightVerdict) -> list[dict[str, str]]:
    """List the group of each host, or nothing if no host has anything to do."""
    parted = found["parted"]
    if not parted["drifted"] and not parted["peers"]:
        return []
    return [
        {"host": host, "group": f"fullmesh_{word}"}
        for word, hosts in parted.items()
        for host in hosts
    ]


def list_unqueried_hosts(asked: Mapping[str, Any]) -> list[str]:
    """List the hosts for Ansible's own tasks: those that only they can query, and those that did not answer."""
    silent = [host for host, said in asked["answers"].items() if said.get("unreachable")]
    return [*asked["ordinary"], *silent]


def collect_node_facts(
    hostvars: Any, hosts: Sequence[str], asked: Mapping[str, Any]
) -> tuple[dict[str, NodeFacts], list[Fault]]:
    """Return the complete facts of each node, and a fault for each node without them.

    Args:
        hostvars: Ansible's, with the result of node_facts.
        hosts: the hosts of this run.
        asked: the same for hosts that were queried at once.
    """
    # a host that was queried again at another address has both results
    results = {
        host: to_json_value(hostvars[host].get("__preflight") or asked.get(host) or {})
        for host in hosts
    }
    observed: dict[str, NodeFacts] = {}
    silent = {}
    for host, result in results.items():
        try:
            said = read_node_facts(result)
        except contract.ContractError as error:
            result["msg"] = f"the answer of node_facts is malformed, {error}"
            said = None
        if said is None:
            silent[host] = result
        else:
            observed[host] = said
    pythons = {
        host: hostvars[host].get("__preflight_python") or {"stdout": result.get("python", "")}
        for host, result in silent.items()
    }
    ways = {
        host: (
            str(hostvars[host].get("ansible_host", host)),
            str(hostvars[host].get("ansible_user", "")),
        )
        for host in silent
    }
    return observed, find_reach_faults(silent, pythons, ways, len(hosts))


def read_node_facts(result: dict[str, Any]) -> NodeFacts | None:
    """Return the result of node_facts, or None if it failed.

    Raises:
        ContractError: the result is malformed.
    """
    # Ansible adds the interpreter that it discovered, even to the result of a module that failed
    if isinstance(result.get("ansible_facts"), dict):
        result["ansible_facts"].pop("discovered_interpreter_python", None)
    return contract.convert_answer(NodeFacts, result)


def find_facts_faults(host: str, result: dict[str, Any]) -> list[Fault]:
    """Return why the facts of a node are not used, for a playbook without the plan."""
    try:
        read_node_facts(result)
    except contract.ContractError as error:
        text = f"{host}: the answer of node_facts is malformed, {error}"
        step = "Check: the node (it is broken, or not yours). Fix: leave it out with --limit"
        return [Fault("PR-102", text, step)]
    return []


def resolve_plan(
    plan: ClusterPlan, observed: Mapping[str, NodeFacts]
) -> tuple[ClusterPlan, list[Fault]]:
    """Return the plan with all ``auto`` values resolved, and faults for those that cannot be.

    Args:
        plan: derived from the inventory alone.
        observed: host -> its result of node_facts, for the hosts of this run that answered.
    """
    devices = collect_accelerators(observed)
    nothing: ResolvedSettings = {}
    kept = next((said["resolved"] for said in observed.values() if said["resolved"]), nothing)
    choice, faults = accelerators.resolve_auto_choice(plan, devices, kept)
    made = auto.apply_auto_choice(plan, choice)
    most = max(node["local_ranks"] for node in made["nodes"].values())
    if "process_groups" in plan and choice:
        data = PortRange(plan["data_ports"]["first"], plan["data_ports"]["last"])
        faults += find_port_count_faults(data, most, plan["process_groups"])
    return made, faults


def find_choice_drift(plan: ClusterPlan, held: ResolvedSettings) -> list[str]:
    """Describe the differences between the current ``auto`` values and those at the time when a node converged."""
    nothing: ResolvedSettings = {}
    now: Mapping[str, object] = plan.get("resolved", nothing)
    then: Mapping[str, object] = to_json_value(held)
    return [
        f"plan: {name} is {now.get(name, 'not left to auto')}, was {then.get(name, 'not left to auto')}"
        for name in sorted({*now, *then})
        if now.get(name) != then.get(name)
    ]


def collect_accelerators(observed: Mapping[str, NodeFacts]) -> dict[str, Accelerators]:
    """Collect the accelerators of the nodes that answered."""
    return {
        host: said["ansible_facts"]["fullmesh"]["accelerators"] for host, said in observed.items()
    }


def find_unused_accelerators(plan: ClusterPlan, observed: Mapping[str, NodeFacts]) -> list[str]:
    """Return the notes about accelerators that stay unused."""
    return accelerators.describe_unused_devices(collect_accelerators(observed), plan)


def find_reach_faults(
    silent: Mapping[str, Mapping[str, Any]],
    pythons: Mapping[str, Mapping[str, Any]],
    ways: Mapping[str, tuple[str, str]],
    count: int,
) -> list[Fault]:
    """Return one fault for all nodes that did not answer, and one for each node that answered with a failure.

    *ways*: the ssh address and user of each node. *count*: the number of all nodes.
    """
    away = {host: result for host, result in silent.items() if result.get("unreachable")}
    faults = []
    if away:
        seen = "; ".join(f"{host}: {_read_first_line(result)}" for host, result in away.items())
        faults.append(
            Fault(
                "PR-101",
                f"Cannot reach {len(away)} of {count} nodes ({seen})",
                f"{_list_reach_steps(away, ways)}, or leave them out with --limit",
            )
        )
    faults += [
        _explain_unobserved(host, result, pythons[host], ways[host])
        for host, result in silent.items()
        if host not in away
    ]
    return faults


def _list_reach_steps(
    away: Mapping[str, Mapping[str, Any]], ways: Mapping[str, tuple[str, str]]
) -> str:
    """List the steps for all nodes, each step once."""
    known = [
        reach.explain_reach_failure(str(result.get("msg", "")), *ways[host])
        for host, result in away.items()
    ]
    steps = dict.fromkeys(why.step for why in known if why is not None)
    return ". ".join(steps) or "Fix ssh to them (ssh -v)"


def _explain_unobserved(
    host: str, result: Mapping[str, Any], python: Mapping[str, Any], way: tuple[str, str]
) -> Fault:
    """Explain a failed survey. If Python is too old, Ansible's or Fullmesh's code fails, with varying errors."""
    version = str(python.get("stdout", "")).strip()
    numbers = re.match(r"(\d+)\.(\d+)\.\d", version)
    if numbers and tuple(map(int, numbers.groups())) < LOWEST_PYTHON:
        return _explain_old_python(host, version)
    parts = (result.get(key) for key in ("msg", "module_stderr", "module_stdout"))
    why = reach.explain_reach_failure(" ".join(str(part) for part in parts if part), *way)
    needs = f"The user needs sudo (ansible_become_password or NOPASSWD) and Python {NEEDED_PYTHON} or newer"
    return Fault(
        "PR-102",
        f"{host}: cannot be observed: {_read_first_line(result)}",
        f"{why.what[0].upper()}{why.what[1:]}. {why.step}" if why else needs,
    )


def _explain_old_python(host: str, version: str) -> Fault:
    return Fault("PR-113", f"{host}: Python {version} is older than {NEEDED_PYTHON}", NEWER_PYTHON)


def _read_first_line(result: Mapping[str, Any]) -> str:
    text = str(result.get("msg") or result.get("module_stderr") or "no answer").strip()
    return text.splitlines()[0][:200] if text else "no answer"


def find_node_faults(plan: ClusterPlan, host: str, facts: Facts, now: float) -> list[Fault]:
    """Compare one node's facts with its entry in the plan."""
    seen = facts["fullmesh"]
    faults = [*_find_platform_faults(host, facts), *_find_link_faults(plan, host, seen)]
    if not seen["root"]:
        faults.append(
            Fault(
                "PR-107", f"{host}: surveyed without root", "Set ansible_become: true for the group"
            )
        )
    faults += _find_room_faults(plan, host, seen)
    faults += find_service_faults(plan, host, seen)
    faults += find_tunnel_faults(plan, host, seen)
    offset = seen["epoch"] - now
    if abs(offset) > CLOCK_SECONDS:
        faults.append(
            Fault(
                "PR-110",
                f"{host}: its clock is {offset:+.0f} s from the controller's",
                "Set it once with timedatectl set-time. Then chrony keeps it synchronized",
            )
        )
    return faults


def _find_room_faults(plan: ClusterPlan, host: str, seen: Observations) -> list[Fault]:
    """Check disk and memory. An existing environment counts as installed. TR-105 checks the exact size of a new one."""
    node = plan["nodes"][host]
    for_cpus = node.get("accelerator", "cpu") in ("cpu", "") or seen["torch_there"]
    faults = []
    venvs = str(Path(seen["venv"]).parent)
    for path, free in seen["free_bytes"].items():
        needed = NEEDED_BYTES if for_cpus or path != venvs else NEEDED_FOR_GPUS
        if free < needed:
            faults.append(
                Fault(
                    "PR-109",
                    f"{host}: {free / 1e9:.1f} GB free for {path}, needs {needed / 1e9:.0f}",
                    "Make room there",
                )
            )
    ranks = node["local_ranks"]
    if seen["memory_bytes"] < ranks * RANK_BYTES:
        held = f"{seen['memory_bytes'] / 1e9:.1f} GB of memory"
        faults.append(
            Fault(
                "PR-119",
                f"{host}: {held} for {ranks} rank(s), which need {ranks * RANK_BYTES / 1e9:.1f} before any model",
                "Add memory, or lower fullmesh_local_ranks",
            )
        )
    return faults


def find_tunnel_faults(plan: ClusterPlan, host: str, seen: Observations) -> list[Fault]:
    """Find interfaces whose networks overlap the tunnel's, so that the kernel would choose between them."""
    if "wireguard" not in plan:
        return []
    tunnel = plan["wireguard"]
    network = addresses.parse_network(tunnel["network"])
    return [
        Fault(
            "PR-123",
            f"{host}: {one['name']} has {held}, which overlaps wireguard_network ({network})",
            "Choose another wireguard_network",
        )
        for one in seen["interfaces"]
        if one["name"] not in ("lo", tunnel["interface"])
        for held in one["addresses"]
        if rails.overlap_networks(network, ipaddress.ip_interface(held).network)
    ]


def find_service_faults(plan: ClusterPlan, host: str, seen: Observations) -> list[Fault]:
    """Find ranges of services that are too small for the node's CPUs."""
    return [
        Fault(
            "PR-122",
            f"{host}: {services.describe_service_port(port)} has {len(services.service_port_to_range(port))} ports "
            f"for {seen['cpus']} CPUs,"
            f" but each CPU needs {port['per_cpu']}",
            "Widen the range",
        )
        for port in services.find_small_ranges(plan, host, seen["cpus"])
    ]


def _find_platform_faults(host: str, facts: Facts) -> list[Fault]:
    name, major = facts["distribution"], facts["distribution_major_version"]
    faults = []
    if major not in SUPPORTED.get(name, ()):
        known = ", ".join(f"{n} {'/'.join(v)}" for n, v in SUPPORTED.items())
        faults.append(
            Fault(
                "PR-103",
                f"{host}: {name or 'unknown system'} {facts['distribution_version']} is not supported",
                f"Supported: {known}",
            )
        )
    if facts["service_mgr"] != "systemd":
        faults.append(
            Fault("PR-112", f"{host}: systemd does not run", "Boot the node with systemd")
        )
    version = facts["python"]["version"]
    if (version["major"], version["minor"]) < LOWEST_PYTHON:
        faults.append(_explain_old_python(host, facts["python_version"]))
    return faults


def _find_link_faults(plan: ClusterPlan, host: str, seen: Observations) -> list[Fault]:
    faults = []
    interfaces = seen["interfaces"]
    present = ", ".join(one["name"] for one in interfaces if one["name"] != "lo")
    links = plan["nodes"][host]["links"]
    for link in links:
        if link.get("vlan") or link.get("bond"):
            below = _list_lower_interfaces(link, links)
            faults += [
                Fault(
                    "PR-104", f"{host}: no interface {one}", f"Use one of its interfaces: {present}"
                )
                for one in below
                if not find_interface_name(one, interfaces)
            ]
            faults += _find_misplaced_addresses(host, link["interface"], link, interfaces)
            continue
        name = find_link_interface(link, interfaces)
        wanted = link["interface"] or link["mac"]
        if not name and (wanted or link.get("pattern")):
            faults.append(_explain_missing_nic(host, link, interfaces, present))
        elif not name:
            faults.append(
                Fault(
                    "PR-105",
                    f"{host}: none of {present} has {', '.join(link['addresses'])}",
                    "Set fullmesh_interface to the interface for this address",
                )
            )
        else:
            faults += _find_misplaced_addresses(host, name, link, interfaces)
    return faults


def _explain_missing_nic(
    host: str, link: PlanLink, interfaces: Sequence[Interface], present: str
) -> Fault:
    wanted = link["interface"] or link["mac"]
    text = f"no interface {wanted}"
    if not wanted:
        found = ", ".join(list_matching_nics(link["pattern"], interfaces)) or "none"
        text = f"rail {link['rail']} needs one interface {link['pattern']}, found {found}"
    return Fault("PR-104", f"{host}: {text}", f"Use one of its interfaces: {present}")


def _list_lower_interfaces(link: PlanLink, links: Sequence[PlanLink]) -> list[str]:
    """List the NICs that a bond or VLAN needs and that no other link creates."""
    if link.get("bond"):
        return list(link["bond"]["members"])
    made = {one["interface"] for one in links if one.get("bond")}
    return [link["vlan"]["parent"]] if link["vlan"]["parent"] not in made else []


def _find_misplaced_addresses(
    host: str, name: str, link: PlanLink, interfaces: Sequence[Interface]
) -> list[Fault]:
    wanted = {str(entry).split("/", 1)[0] for entry in link["addresses"]}
    # a NIC that becomes a member of a bond passes its address to the bond
    free = {
        name,
        *(find_interface_name(one, interfaces) for one in link.get("bond", {}).get("members", [])),
    }
    return [
        Fault(
            "PR-106",
            f"{host}: {held} is on {one['name']}, the inventory puts it on {name}",
            "Fix fullmesh_interface, or remove the address from that interface",
        )
        for one in interfaces
        if one["name"] not in free
        for held in one["addresses"]
        if str(held).split("/", 1)[0] in wanted
    ]


def find_twin_faults(observed: Mapping[str, NodeFacts]) -> list[Fault]:
    """Find two inventory names for one machine, by its hardware addresses."""
    owners: dict[tuple[str, ...], list[str]] = {}
    for host, said in observed.items():
        macs = sorted(
            one["mac"]
            for one in said["ansible_facts"]["fullmesh"]["interfaces"]
            if one["mac"] not in ("", "00:00:00:00:00:00")
        )
        if macs:
            owners.setdefault(tuple(macs), []).append(host)
    return [
        Fault(
            "PR-111",
            f"{' and '.join(hosts)} are one machine (MACs {', '.join(macs)})",
            "Keep one of the names",
        )
        for macs, hosts in owners.items()
        if len(hosts) > 1
    ]


def find_node_name_faults(plan: ClusterPlan, observed: Mapping[str, NodeFacts]) -> list[Fault]:
    """Find nodes whose own name is another node's name, which would resolve to the wrong address everywhere."""
    owner = {
        name: node
        for node in plan["nodes"]
        for name in (node, plan["nodes"][node]["hostname"])
        if name
    }
    names = {host: said["ansible_facts"]["nodename"] for host, said in observed.items()}
    return [
        Fault(
            "PR-114",
            f"{host}: its host name is {name}, which is the name of {owner[name]} in the inventory",
            "Fix the inventory, or rename one of the two (hostnamectl)",
        )
        for host, name in names.items()
        if owner.get(name, host) != host
    ]
