"""Clusters of any size that answer from recorded observations: the lab's nodes again under more names.

What two lab nodes said (tests/unit/recorded) is given other names, addresses and identities and read by its type, so a
thousand nodes say what a thousand nodes would: as much, and in the same form. Used by benchmarks/scale.py and by tests.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import ansible.module_utils
import records
from record_files import RECORDED, read_record

from fullmesh import contract
from fullmesh.filters.observe import verify_cluster
from fullmesh.model.plan import derive_plan
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import LadderLinksResult, LadderNodeResult, LinkResult
from fullmesh.observed.node import NodeFacts
from fullmesh.observed.ranks import CollectedRanks, StartedRanks
from fullmesh.result.types import Result
from fullmesh.verify import schedule
from fullmesh.verify.model import CHECKS
from fullmesh.verify.schedule import ProbeScope

MODULE_UTILS = str(Path(__file__).parents[2] / "module_utils")
if MODULE_UTILS not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(MODULE_UTILS)
from ansible.module_utils.fullmesh.probe.listeners import filter_listener_report  # noqa: E402 (the path is set above)
from ansible.module_utils.fullmesh.probe.sweep import condense_sweep  # noqa: E402 (likewise)
from ansible.module_utils.fullmesh.survey.lookup import NAMES_IN_FULL  # noqa: E402 (likewise)

RUN = "20260102T030405Z-abcd"
HostVars = dict[str, dict[str, Any]]
PEER_SETS = ("fullmesh-peers4",)
OPTIONS = {
    "checks": list(CHECKS),
    "mode": "peers_range",
    "check_mode": False,
    "clock_limit": 5,
    "deadline": 120,
    "init_timeout": 10,
    "inventory": "inventory/prod",
}
# Names and addresses in the records, in the order in which they are looked for.
OLD = re.compile(r"gpu-el1\.lab\.example|10\.7[78]\.[12]\.1[12]\b")
OF_MASTER = ("master", "rendezvous")


def name_of(number: int) -> str:
    """Of a node; counted from 0."""
    return f"gpu-{number:04d}"


def address_of(number: int) -> str:
    """Its cluster address."""
    return f"10.78.{number // 250}.{number % 250 + 1}"


def outer_of(number: int) -> str:
    """The address of its other card, by which it is managed."""
    return f"10.77.{number // 250}.{number % 250 + 1}"


def mac_of(number: int, card: int) -> str:
    """Of a card."""
    return f"02:00:00:{card:02x}:{number // 256:02x}:{number % 256:02x}"


def settings(count: int) -> HostVars:
    """The inventory."""
    return {
        name_of(number): {
            "fullmesh_address": f"{address_of(number)}/16",
            "fullmesh_interface": "eth1",
            "fullmesh_local_ranks": 1,
            "torch_runtime_accelerator": "cpu",
            "ansible_host": outer_of(number),
        }
        for number in range(count)
    }


@cache
def recorded(name: str) -> str:
    """A file of records."""
    return read_record(RECORDED / f"ladder/{name}.json")


def renamed(text: str, number: int) -> str:
    """What el1 said, as another node would say it; all at once, since one new address may hold an old one."""
    words = {
        "gpu-el1.lab.example": f"{name_of(number)}.lab.example",
        "10.78.2.11": address_of(number),
        "10.78.2.12": address_of(0),
        "10.78.1.11": address_of(number),
        "10.77.2.11": outer_of(number),
        "10.77.1.11": outer_of(number),
    }
    return OLD.sub(lambda found: words.get(found[0], found[0]), text)


def first_look(number: int) -> NodeFacts:
    """What node_facts says."""
    said = contract.convert_value(NodeFacts, json.loads(renamed(recorded("el1-facts"), number)))
    for card, one in enumerate(said["ansible_facts"]["fullmesh"]["interfaces"]):
        if one["name"] != "lo":
            one["mac"] = mac_of(number, card)
    said["resolved"] = {}
    return said


def look(plan: ClusterPlan, number: int) -> LadderNodeResult:
    """What ladder_node says on a healthy node."""
    name = name_of(number)
    told: LadderNodeResult = json.loads(renamed(recorded("el1"), number))
    facts, survey = told["facts"], told["facts"]["survey"]
    for card, one in enumerate(survey["interfaces"]):
        if one["name"] != "lo":
            one["mac"] = mac_of(number, card)
    facts["names"]["plan"] = (
        {}
        if plan["nnodes"] > NAMES_IN_FULL
        else {
            **{one: [node["address"]] for one, node in plan["nodes"].items()},
            f"{name}.lab.example": [address_of(number)],
        }
    )
    facts["limits"]["nofile"] = facts["limits"]["nofile_hard"] = 1 << 20
    of_plan = {
        "WORLD_SIZE": plan["world_size"],
        "NNODES": plan["nnodes"],
        "NODE_RANK": plan["nodes"][name]["node_rank"],
        "MASTER_ADDR": plan["master"]["address"],
    }
    for variable, value in of_plan.items():
        survey["environment"]["values"][variable]["value"] = str(value)
    survey["master_answers"] = [plan["master"]["address"]]
    survey["shm"] = {"size": 64 << 30, "free": 64 << 30}
    identity = survey["identity"]
    identity["machine_id"] = f"{number:04x}" + identity["machine_id"][4:]
    identity["host_keys"] = [f"{number:04x}{key[4:]}" for key in identity["host_keys"]]
    for held in survey["nft"]["sets"]:
        if held["name"] in PEER_SETS:
            held["elem"] = list(plan["peers"])
    for zone in PEER_SETS:
        survey["firewalld"]["ipsets"][zone] = list(plan["peers"])
    if name != plan["master"]["node"]:
        told["ports"] = [port for port in told["ports"] if port["kind"] not in OF_MASTER]
    return contract.convert_value(LadderNodeResult, told)


@cache
def pair() -> LinkResult:
    """One connection of the healthy diagnosis."""
    held = records.diagnosis("healthy")["nodes"]["el1"]["links"]["links"][0]
    return contract.convert_value(LinkResult, held)


def record(row: Any, own: str, silent: str = "") -> LinkResult:
    """What becomes of a connection: told by a schedule or by a list of targets; *silent* answers nobody but itself."""
    verdict = "open" if row["kind"] != "outside" else "rejected"
    if row["node"] == silent and row["address"] != own:
        verdict = "dropped"
    target = {key: row[key] for key in ("node", "address", "port", "kind")}
    return {**pair(), **target, "source": own, "verdict": verdict}  # type: ignore[typeddict-item]


def all_well(rows: Any, own: str) -> list[LinkResult]:
    """What becomes of connections to healthy listeners."""
    return [record(row, own) for row in rows]


def links(
    plan: ClusterPlan, opened: schedule.Opened, name: str, scope: ProbeScope, silent: str = ""
) -> LadderLinksResult:
    """What ladder_links says on a healthy node."""
    own = plan["nodes"][name]["address"]
    made: LadderLinksResult = {
        "links": [],
        "bandwidth": [],
        "neighbours": {"count": 1, "entries": {}},
        "seconds": 1.0,
    }
    rows = schedule.build_sweep(plan, opened, name, scope)
    if rows:
        found = [record(row, own, silent) for row in rows]
        made["links"], made["swept"] = condense_sweep(
            rows, len(rows), found, plan["master"]["node"]
        )
    else:
        rows = schedule.list_full_targets(plan, opened, name, scope)
        made["links"] = [record(row, own, silent) for row in rows]
    return made


def listeners(plan: ClusterPlan, name: str, scope: ProbeScope) -> StartedRanks:
    """What ladder_gloo says of the listeners of a healthy node."""
    held = records.diagnosis("healthy")["nodes"]["el1"]["started"]["listeners"]
    own = plan["nodes"][name]["address"]
    others = {n: one["address"] for n, one in plan["nodes"].items() if n != name}
    ports = next(iter(held["asked"].values()))
    flows = {f"{a}>{b}": ports for one in others.values() for a, b in ((own, one), (one, own))}
    seen = {
        **held,
        "proved": dict.fromkeys(others, len(ports)),
        "lost": {peer: [0, 319] for peer in others},
        "asked": flows,
        "answered": flows,
    }
    return contract.convert_value(
        StartedRanks, {"listeners": filter_listener_report(seen, {}) if scope["sweep"] else seen}
    )


def climbed(plan: ClusterPlan, name: str) -> CollectedRanks:
    """What ladder_gloo collects of a rank that got to the top."""
    number = plan["nodes"][name]["node_rank"]
    told: CollectedRanks = json.loads(renamed(recorded("el1-gpus"), number))
    (rank,) = told["ranks"].values()
    (own,) = plan["nodes"][name]["ranks"]
    told["ranks"], told["doing"] = {str(own): rank}, {str(own): "done"}
    told["ended"]["codes"] = {str(own): 0}
    told["ended"]["load"] = 0.5  # of the machine that recorded it, which had other work as well
    return contract.convert_value(CollectedRanks, told)


def planned(count: int) -> ClusterPlan:
    """The plan of so many nodes."""
    return derive_plan(
        {
            name: {k: v for k, v in own.items() if not k.startswith("ansible_")}
            for name, own in settings(count).items()
        }
    )


def hostvars(count: int, silent: str = "") -> tuple[ClusterPlan, HostVars]:
    """The plan, and all that modules registered, as Ansible has it; nobody reaches the node *silent*."""
    plan, held = planned(count), settings(count)
    scope = schedule.build_probe_scope(plan, "auto", [], False, RUN)
    looks = {name_of(number): look(plan, number) for number in range(count)}
    opened = {peer: told["ports"] for peer, told in looks.items()}
    for number in range(count):
        name = name_of(number)
        own = held[name]
        own["__preflight"] = first_look(number)
        own["ansible_facts"] = own["__preflight"]["ansible_facts"]
        own["__verify_cluster_node"] = looks[name]
        own["__verify_cluster_links"] = links(plan, opened, name, scope, silent)
        own["__verify_cluster_started"] = listeners(plan, name, scope)
        own["__verify_cluster_gloo"] = climbed(plan, name)
    return plan, held


def registered(held: HostVars) -> dict[str, Any]:
    """The same as the role registers it: all answers to a question in one place."""
    parts = ("node", "links", "closer", "started", "gloo")
    keys = [f"__verify_cluster_{part}" for part in parts]
    return {
        key: {"answers": {host: own[key] for host, own in held.items() if key in own}}
        for key in keys
    }


def diagnosed(plan: ClusterPlan, held: HostVars) -> dict[str, Any]:
    """The same as a diagnosis registers it."""
    kinds = {"looked": "node", "linked": "links", "closer": "closer", "stopped": "started"}
    told = registered(held)
    found = {f"__diagnose_{name}": told[f"__verify_cluster_{part}"] for name, part in kinds.items()}
    return {"__diagnose_plan": plan, **found}


def result(count: int, silent: str = "") -> Result:
    """What a verification makes of their answers."""
    plan, held = hostvars(count, silent)
    scope = schedule.build_probe_scope(plan, "auto", [], False, RUN)
    about = {
        "name": RUN,
        "started": "2026-01-02T03:04:05+00:00",
        "finished": "2026-01-02T03:04:15+00:00",
        "lab": "",
    }
    return verify_cluster.ladder_result(
        plan, held, registered(held), {**OPTIONS, "scope": scope}, about
    )  # type: ignore[no-any-return]
