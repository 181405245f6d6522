"""What the nodes' observations say against the plan, before anything is changed. Pure.

One file, though long: each rule is a few lines, and all of them read the same two things.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from fullmesh import contract
from fullmesh.faults import Fault
from fullmesh.model import auto, membership, reach, services
from fullmesh.model.node_view import find_interface_name, find_link_interface
from fullmesh.model.plan_ports import find_port_count_faults
from fullmesh.model.types import ClusterPlan, PlanLink
from fullmesh.observed.node import (
    Accelerators,
    Facts,
    Interface,
    NodeFacts,
    Observations,
    PendingChange,
    ResolvedSettings,
)
from fullmesh.observed.ports import PortRange
from fullmesh.plain import to_json_value
from fullmesh.roles import accelerators

CODES = {
    "PR-101": "a node cannot be reached",
    "PR-102": "a node could be reached but not observed (no sudo, no Python, a broken module)",
    "PR-103": "an operating system that is not supported",
    "PR-104": "the interface that the inventory names is not on the node",
    "PR-105": "no interface is named and none carries the address",
    "PR-106": "another interface of the node carries the cluster address",
    "PR-107": "the observation did not run as root",
    "PR-109": "too little free space",
    "PR-110": "the clock is far from the controller's",
    "PR-111": "two inventory hosts are one machine",
    "PR-112": "the node has no systemd",
    "PR-113": "the node's Python is too old for what runs on nodes",
    "PR-114": "an inventory host's own name is another host's inventory name",
    "PR-115": "some nodes have GPUs and some have none, so auto cannot choose a torch",
    "PR-116": "NVIDIA GPUs and no driver, or none that a torch with a lock can run on",
    "PR-117": "the nodes have different numbers of GPUs, so auto cannot choose the ranks",
    "PR-118": "NVIDIA's driver shows another number of GPUs than the PCI bus",
    "PR-119": "too little memory for the ranks",
    "PR-122": "a service's range has too few ports for the CPUs of a node",
    "PR-121": "somebody else still works on the node's packages or its first boot",
    "PR-180": "a run leaves out nodes that would have to learn of a new one",
    "PR-120": "ranks left to auto on a node that this run does not look at",
}

# What the roles have variables for; the README says what was tested where.
SUPPORTED: Mapping[str, Sequence[str]] = {
    "CentOS": ("9", "10"),
    "RedHat": ("9", "10"),
    "Rocky": ("9", "10"),
    "AlmaLinux": ("9", "10"),
    "Ubuntu": ("22", "24"),
    "Debian": ("12",),
}
# EL 9's own. ansible-core 2.19 goes down to 3.8 on managed nodes (its porting guide); older ones fail in its wrapper.
LOWEST_PYTHON = (3, 9)
NEEDED_PYTHON = ".".join(map(str, LOWEST_PYTHON))
NEWER_PYTHON = "Set ansible_python_interpreter to a newer one (EL 8: dnf install python39)"
# The venv with torch's CPU build takes 1.3 GB, with CUDA 7 GB; the wheels beside it as much again while installing.
NEEDED_BYTES = 3 * 1000**3
NEEDED_FOR_GPUS = 14 * 1000**3
# A rank that has only loaded torch holds 229 MB (CPU build, VmHWM); the system and a first tensor need some as well.
RANK_BYTES = 400 * 1000**2
# The c10d rendezvous drops a node whose clock is 15 s off and trains on without it (measured); chrony fixes what is
# less, so only a clock that chrony would have to step by a lot is refused here.
CLOCK_SECONDS = 3600
# A node's pending changes are foreign data: bounded before they are shown or waited for. 3600 s is the longest
# rollback time that a role accepts.
PENDING_CHANGES, PENDING_WORDS, PENDING_SECONDS = 8, 100, 3600
PENDING_TEXTS: Sequence[Literal["name", "what", "since"]] = ("name", "what", "since")


class PreflightInput(TypedDict, total=False):
    """One look at the nodes.

    Attributes:
        now: the controller's clock, seconds since 1970.
        asked: host -> what node_facts would have registered, for the hosts that were asked at once.
        converge: ``fullmesh_converge`` of hosts that have none of their own.
    """

    now: Required[float]
    asked: Mapping[str, Any]
    converge: str


class PreflightVerdict(TypedDict):
    """What the nodes' answers come to.

    Attributes:
        faults: coded sentences; with any, nothing is touched.
        plan: with all that was left to the first look at the nodes.
        unused: what is to be said of accelerators that stay unused.
        parted: what this run does with each host: it is configured, only learns of other nodes, or nothing.
    """

    faults: list[str]
    plan: ClusterPlan
    unused: list[str]
    parted: dict[membership.Group, list[str]]


def judge_preflight(
    plan: ClusterPlan, hostvars: Any, hosts: Sequence[str], look: PreflightInput
) -> PreflightVerdict:
    """What the answers of *hosts* come to.

    Args:
        plan: the cluster plan.
        hostvars: Ansible's; ``__preflight`` is the registered result of node_facts, ``__preflight_python`` what the
            interpreter of a node says of itself that could not give one.
        hosts: the hosts of this run (``--limit`` may leave some out).
        look: when, and what those said that were asked at once.
    """
    observed, faults = collect_node_facts(hostvars, hosts, look.get("asked", {}))
    made, undecided = resolve_plan(plan, observed)
    faults += undecided
    for host, facts in observed.items():
        faults += find_node_faults(made, host, facts["ansible_facts"], look["now"])
    faults += find_twin_faults(observed)
    faults += find_node_name_faults(plan, observed)
    members = membership.build_membership(made)
    parted: dict[membership.Group, list[str]] = {"drifted": [], "peers": [], "converged": []}
    for host, said in observed.items():
        why = [*said["drift"], *find_choice_drift(made, said["resolved"])]
        converge = str(hostvars[host].get("fullmesh_converge", look.get("converge")))
        parted[membership.choose_run_group(members, why, said["members"], converge)].append(host)
    return {
        "faults": [str(fault) for fault in sorted(set(faults))],
        "plan": made,
        "unused": find_unused_accelerators(made, observed),
        "parted": parted,
    }


def list_group_members(found: PreflightVerdict) -> list[dict[str, str]]:
    """The group that each host goes to; none where nobody has anything to do."""
    parted = found["parted"]
    if not parted["drifted"] and not parted["peers"]:
        return []
    return [
        {"host": host, "group": f"fullmesh_{word}"}
        for word, hosts in parted.items()
        for host in hosts
    ]


def list_unqueried_hosts(asked: Mapping[str, Any]) -> list[str]:
    """The hosts that Ansible's own tasks look at: those that only they can ask, and those that did not answer."""
    silent = [host for host, said in asked["answers"].items() if said.get("unreachable")]
    return [*asked["ordinary"], *silent]


def list_hosts_with_pending_changes(
    hostvars: Any, hosts: Sequence[str], asked: Mapping[str, Any]
) -> list[str]:
    """Return the hosts on which a change of an earlier run still waits for its confirmation.

    Args:
        hostvars: Ansible's, with what node_facts registered for hosts that were asked one by one.
        hosts: the hosts of this run.
        asked: the same for the hosts that were asked at once.
    """
    found = []
    for host in hosts:
        said = to_json_value(hostvars[host].get("__preflight") or asked.get(host) or {})
        if said.get("pending"):
            found.append(host)
    return found


def read_pending_changes(changes: object) -> list[PendingChange]:
    """Return a node's pending changes as far as they can be believed: of a known form, printable, at most an hour."""
    found: list[PendingChange] = []
    for one in changes if isinstance(changes, list) else []:
        try:
            change = contract.convert_value(PendingChange, to_json_value(one))
        except contract.ContractError:
            continue
        words = {
            key: "".join(c for c in change[key] if c.isprintable())[:PENDING_WORDS]
            for key in PENDING_TEXTS
        }
        seconds = min(max(change["seconds"], 0), PENDING_SECONDS)
        found.append(
            {
                "name": words["name"],
                "what": words["what"],
                "since": words["since"],
                "seconds": seconds,
            }
        )
    return found[:PENDING_CHANGES]


def describe_pending_changes(changes: object) -> list[str]:
    """Return a sentence for each change that a node reverts by itself unless its run confirms it."""
    return [
        f"A run changed {change['what'] or change['name']} at {change['since'] or 'an unknown time'} and "
        f"has not confirmed it. The node reverts the change in {change['seconds']} s. "
        "This run waits for that, then continues."
        for change in read_pending_changes(changes)
    ]


def count_pending_seconds(changes: object) -> int:
    """Return how long to wait until a node has begun to revert all of its pending changes."""
    return max((change["seconds"] for change in read_pending_changes(changes)), default=0) + 1


def collect_node_facts(
    hostvars: Any, hosts: Sequence[str], asked: Mapping[str, Any]
) -> tuple[dict[str, NodeFacts], list[Fault]]:
    """What the nodes said, whole or not at all, and why some said nothing.

    Args:
        hostvars: Ansible's, with what node_facts registered.
        hosts: the hosts of this run.
        asked: the same of those that were asked at once.
    """
    # who was looked at once more, at another address, has both
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
            result["msg"] = f"node_facts' answer is not what it should be, {error}"
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
    """Return what node_facts returned, None if it failed.

    Raises:
        ContractError: it returned something else.
    """
    # Ansible adds the interpreter that it discovered, to the result of a module that failed as well
    if isinstance(result.get("ansible_facts"), dict):
        result["ansible_facts"].pop("discovered_interpreter_python", None)
    return contract.convert_answer(NodeFacts, result)


def find_facts_faults(host: str, result: dict[str, Any]) -> list[Fault]:
    """Return why the facts of a node are not used; for a playbook that does without the plan."""
    try:
        read_node_facts(result)
    except contract.ContractError as error:
        text = f"{host}: node_facts' answer is not what it should be, {error}"
        step = "Look at the node: it is broken, or not yours. Or leave it out with --limit"
        return [Fault("PR-102", text, step)]
    return []


def resolve_plan(
    plan: ClusterPlan, observed: Mapping[str, NodeFacts]
) -> tuple[ClusterPlan, list[Fault]]:
    """The plan with all that was left to ``auto``, and why some of it cannot be decided.

    Args:
        plan: as the inventory alone makes it.
        observed: host -> what node_facts said, for the hosts of this run that answered.
    """
    looked = collect_accelerators(observed)
    nothing: ResolvedSettings = {}
    kept = next((said["resolved"] for said in observed.values() if said["resolved"]), nothing)
    choice, faults = accelerators.resolve_auto_choice(plan, looked, kept)
    made = auto.apply_auto_choice(plan, choice)
    most = max(node["local_ranks"] for node in made["nodes"].values())
    if "process_groups" in plan and choice:
        data = PortRange(plan["data_ports"]["first"], plan["data_ports"]["last"])
        faults += find_port_count_faults(data, most, plan["process_groups"])
    return made, faults


def find_choice_drift(plan: ClusterPlan, held: ResolvedSettings) -> list[str]:
    """Sentences for what the look at the nodes decides otherwise than when a node converged."""
    nothing: ResolvedSettings = {}
    now: Mapping[str, object] = plan.get("resolved", nothing)
    then: Mapping[str, object] = to_json_value(held)
    return [
        f"plan: {name} is {now.get(name, 'not left to auto')}, was {then.get(name, 'not left to auto')}"
        for name in sorted({*now, *then})
        if now.get(name) != then.get(name)
    ]


def collect_accelerators(observed: Mapping[str, NodeFacts]) -> dict[str, Accelerators]:
    """The accelerators of the nodes that answered."""
    return {
        host: said["ansible_facts"]["fullmesh"]["accelerators"] for host, said in observed.items()
    }


def find_unused_accelerators(plan: ClusterPlan, observed: Mapping[str, NodeFacts]) -> list[str]:
    """What the user should know of accelerators that stay unused."""
    return accelerators.describe_unused_devices(collect_accelerators(observed), plan)


def find_reach_faults(
    silent: Mapping[str, Mapping[str, Any]],
    pythons: Mapping[str, Mapping[str, Any]],
    ways: Mapping[str, tuple[str, str]],
    count: int,
) -> list[Fault]:
    """Nodes that did not answer, all in one fault, and nodes that answered with a failure.

    *ways*: where ssh looks for each and as whom; *count*: of all nodes.
    """
    away = {host: result for host, result in silent.items() if result.get("unreachable")}
    faults = []
    if away:
        seen = "; ".join(f"{host}: {_read_first_line(result)}" for host, result in away.items())
        faults.append(
            Fault(
                "PR-101",
                f"cannot reach {len(away)} of {count} nodes ({seen})",
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
    """What to do for each node, the same once."""
    known = [
        reach.explain_reach_failure(str(result.get("msg", "")), *ways[host])
        for host, result in away.items()
    ]
    steps = dict.fromkeys(why.step for why in known if why is not None)
    return ". ".join(steps) or "Fix ssh to them (ssh -v)"


def _explain_unobserved(
    host: str, result: Mapping[str, Any], python: Mapping[str, Any], way: tuple[str, str]
) -> Fault:
    """A Python that is too old fails in Ansible's wrapper or in ours, with another error in each version."""
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
    """What one node's facts say against its entry in the plan."""
    seen = facts["fullmesh"]
    faults = [*_find_platform_faults(host, facts), *_find_link_faults(plan, host, seen)]
    if not seen["root"]:
        faults.append(
            Fault(
                "PR-107", f"{host}: observed without root", "Set ansible_become: true for the group"
            )
        )
    faults += _find_room_faults(plan, host, seen)
    faults += find_service_faults(plan, host, seen)
    offset = seen["epoch"] - now
    if abs(offset) > CLOCK_SECONDS:
        faults.append(
            Fault(
                "PR-110",
                f"{host}: its clock is {offset:+.0f} s from the controller's",
                "Set it (timedatectl set-time), chrony keeps it from then on",
            )
        )
    return faults


def _find_room_faults(plan: ClusterPlan, host: str, seen: Observations) -> list[Fault]:
    """Disk and memory. An environment that is there was paid for; TR-105 weighs exactly what a new one would take."""
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
                f"{host}: {held} for {ranks} rank(s), which hold {ranks * RANK_BYTES / 1e9:.1f} before any model",
                "Add memory, or lower fullmesh_local_ranks",
            )
        )
    return faults


def find_service_faults(plan: ClusterPlan, host: str, seen: Observations) -> list[Fault]:
    """Ranges of services that are smaller than what the node's CPUs will ask for."""
    return [
        Fault(
            "PR-122",
            f"{host}: {services.describe_service_port(port)} has {len(services.service_port_to_range(port))} ports "
            f"for {seen['cpus']} CPUs,"
            f" {port['per_cpu']} for each are needed",
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
                Fault("PR-104", f"{host}: no interface {one}", f"The node has: {present}")
                for one in below
                if not find_interface_name(one, interfaces)
            ]
            faults += _find_misplaced_addresses(host, link["interface"], link, interfaces)
            continue
        name = find_link_interface(link, interfaces)
        wanted = link["interface"] or link["mac"]
        if not name and wanted:
            faults.append(
                Fault("PR-104", f"{host}: no interface {wanted}", f"The node has: {present}")
            )
        elif not name:
            faults.append(
                Fault(
                    "PR-105",
                    f"{host}: none of {present} carries {', '.join(link['addresses'])}",
                    "Set fullmesh_interface to the one that shall have it",
                )
            )
        else:
            faults += _find_misplaced_addresses(host, name, link, interfaces)
    return faults


def _list_lower_interfaces(link: PlanLink, links: Sequence[PlanLink]) -> list[str]:
    """The cards that a bond or VLAN needs and that are not made by another link."""
    if link.get("bond"):
        return list(link["bond"]["members"])
    made = {one["interface"] for one in links if one.get("bond")}
    return [link["vlan"]["parent"]] if link["vlan"]["parent"] not in made else []


def _find_misplaced_addresses(
    host: str, name: str, link: PlanLink, interfaces: Sequence[Interface]
) -> list[Fault]:
    wanted = {str(entry).split("/", 1)[0] for entry in link["addresses"]}
    # a card that goes into a bond hands its address over
    free = {
        name,
        *(find_interface_name(one, interfaces) for one in link.get("bond", {}).get("members", [])),
    }
    return [
        Fault(
            "PR-106",
            f"{host}: {held} is on {one['name']}, the inventory puts it on {name}",
            "Fix fullmesh_interface, or take the address away there",
        )
        for one in interfaces
        if one["name"] not in free
        for held in one["addresses"]
        if str(held).split("/", 1)[0] in wanted
    ]


def find_twin_faults(observed: Mapping[str, NodeFacts]) -> list[Fault]:
    """Two inventory names for one machine: seen by the same hardware addresses."""
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
    """A node that calls itself by another node's name would resolve to the wrong address everywhere."""
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
            f"{host}: calls itself {name}, which is {owner[name]} in the inventory",
            "Fix the inventory, or rename one of the two (hostnamectl)",
        )
        for host, name in names.items()
        if owner.get(name, host) != host
    ]
