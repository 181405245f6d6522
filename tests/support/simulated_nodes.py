"""Simulate clusters of any size from recorded observations of the lab's nodes.

The answers of two lab nodes (tests/unit/recorded) get other names, addresses and identities, and
are read by their type. So a thousand simulated nodes answer as much, and in the same form, as real
ones. Used by benchmarks/scale.py and by tests.
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
# Names and addresses in the records, in the order of replacement.
OLD = re.compile(r"gpu-el1\.lab\.example|10\.7[78]\.[12]\.1[12]\b")
OF_MASTER = ("master", "rendezvous")


def make_node_name(number: int) -> str:
    """Return the name of a node, counted from 0."""
    return f"gpu-{number:04d}"


def make_cluster_address(number: int) -> str:
    """Return the cluster address of a node."""
    return f"10.78.{number // 250}.{number % 250 + 1}"


def make_management_address(number: int) -> str:
    """Return the management address of a node."""
    return f"10.77.{number // 250}.{number % 250 + 1}"


def make_mac(number: int, nic: int) -> str:
    """Return the hardware address of an interface."""
    return f"02:00:00:{nic:02x}:{number // 256:02x}:{number % 256:02x}"


def make_inventory_settings(count: int) -> HostVars:
    """Return the inventory."""
    return {
        make_node_name(number): {
            "fullmesh_address": f"{make_cluster_address(number)}/16",
            "fullmesh_interface": "eth1",
            "fullmesh_local_ranks": 1,
            "torch_runtime_accelerator": "cpu",
            "ansible_host": make_management_address(number),
        }
        for number in range(count)
    }


@cache
def read_recording(name: str) -> str:
    """Read a file of records."""
    return read_record(RECORDED / f"ladder/{name}.json")


def rename_node(text: str, number: int) -> str:
    """Rename el1 in a text to another node. One pass replaces all, because a new address may contain an old one."""
    words = {
        "gpu-el1.lab.example": f"{make_node_name(number)}.lab.example",
        "10.78.2.11": make_cluster_address(number),
        "10.78.2.12": make_cluster_address(0),
        "10.78.1.11": make_cluster_address(number),
        "10.77.2.11": make_management_address(number),
        "10.77.1.11": make_management_address(number),
    }
    return OLD.sub(lambda match: words.get(match[0], match[0]), text)


def query_node_facts(number: int) -> NodeFacts:
    """Return the answer of node_facts."""
    facts = contract.convert_value(
        NodeFacts, json.loads(rename_node(read_recording("el1-facts"), number))
    )
    for nic, one in enumerate(facts["ansible_facts"]["fullmesh"]["interfaces"]):
        if one["name"] != "lo":
            one["mac"] = make_mac(number, nic)
    facts["resolved"] = {}
    return facts


def query_node(plan: ClusterPlan, number: int) -> LadderNodeResult:
    """Return the answer of ladder_node on a healthy node."""
    name = make_node_name(number)
    answer: LadderNodeResult = json.loads(rename_node(read_recording("el1"), number))
    facts, survey = answer["facts"], answer["facts"]["survey"]
    for nic, one in enumerate(survey["interfaces"]):
        if one["name"] != "lo":
            one["mac"] = make_mac(number, nic)
    facts["names"]["plan"] = (
        {}
        if plan["nnodes"] > NAMES_IN_FULL
        else {
            **{one: [node["address"]] for one, node in plan["nodes"].items()},
            f"{name}.lab.example": [make_cluster_address(number)],
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
    for peer_set in survey["nft"]["sets"]:
        if peer_set["name"] in PEER_SETS:
            peer_set["elem"] = list(plan["peers"])
    for zone in PEER_SETS:
        survey["firewalld"]["ipsets"][zone] = list(plan["peers"])
    if name != plan["master"]["node"]:
        answer["ports"] = [port for port in answer["ports"] if port["kind"] not in OF_MASTER]
    return contract.convert_value(LadderNodeResult, answer)


@cache
def load_connection() -> LinkResult:
    """Return one connection of the healthy diagnosis."""
    connection = records.load_diagnosis("healthy")["nodes"]["el1"]["links"]["links"][0]
    return contract.convert_value(LinkResult, connection)


def make_connection_result(row: Any, own: str, silent: str = "") -> LinkResult:
    """Return the result of a connection, from a row of a schedule or a target. *silent* answers only itself."""
    verdict = "open" if row["kind"] != "outside" else "rejected"
    if row["node"] == silent and row["address"] != own:
        verdict = "dropped"
    target = {key: row[key] for key in ("node", "address", "port", "kind")}
    return {**load_connection(), **target, "source": own, "verdict": verdict}  # type: ignore[typeddict-item]


def pass_all(rows: Any, own: str) -> list[LinkResult]:
    """Return the results of connections to healthy listeners."""
    return [make_connection_result(row, own) for row in rows]


def query_links(
    plan: ClusterPlan, opened: schedule.Opened, name: str, scope: ProbeScope, silent: str = ""
) -> LadderLinksResult:
    """Return the answer of ladder_links on a healthy node."""
    own = plan["nodes"][name]["address"]
    made: LadderLinksResult = {
        "links": [],
        "bandwidth": [],
        "neighbours": {"count": 1, "entries": {}},
        "seconds": 1.0,
    }
    rows = schedule.build_sweep(plan, opened, name, scope)
    if rows:
        found = [make_connection_result(row, own, silent) for row in rows]
        made["links"], made["swept"] = condense_sweep(
            rows, len(rows), found, plan["master"]["node"]
        )
    else:
        rows = schedule.list_full_targets(plan, opened, name, scope)
        made["links"] = [make_connection_result(row, own, silent) for row in rows]
    return made


def query_listeners(plan: ClusterPlan, name: str, scope: ProbeScope) -> StartedRanks:
    """Return ladder_gloo's report of the listeners of a healthy node."""
    listeners = records.load_diagnosis("healthy")["nodes"]["el1"]["started"]["listeners"]
    own = plan["nodes"][name]["address"]
    others = {n: one["address"] for n, one in plan["nodes"].items() if n != name}
    ports = next(iter(listeners["asked"].values()))
    flows = {f"{a}>{b}": ports for one in others.values() for a, b in ((own, one), (one, own))}
    seen = {
        **listeners,
        "proved": dict.fromkeys(others, len(ports)),
        "lost": {peer: [0, 319] for peer in others},
        "asked": flows,
        "answered": flows,
    }
    return contract.convert_value(
        StartedRanks, {"listeners": filter_listener_report(seen, {}) if scope["sweep"] else seen}
    )


def collect_finished_rank(plan: ClusterPlan, name: str) -> CollectedRanks:
    """Return the record that ladder_gloo collects of a rank that finished."""
    number = plan["nodes"][name]["node_rank"]
    answer: CollectedRanks = json.loads(rename_node(read_recording("el1-gpus"), number))
    (rank,) = answer["ranks"].values()
    (own,) = plan["nodes"][name]["ranks"]
    answer["ranks"], answer["doing"] = {str(own): rank}, {str(own): "done"}
    answer["ended"]["codes"] = {str(own): 0}
    answer["ended"]["load"] = 0.5  # of the recording machine, which was busy with other work
    return contract.convert_value(CollectedRanks, answer)


def make_plan(count: int) -> ClusterPlan:
    """Return the plan for a number of nodes."""
    return derive_plan(
        {
            name: {k: v for k, v in own.items() if not k.startswith("ansible_")}
            for name, own in make_inventory_settings(count).items()
        }
    )


def make_hostvars(count: int, silent: str = "") -> tuple[ClusterPlan, HostVars]:
    """Return the plan and all registered answers, as Ansible has them. *silent* is a node that no node reaches."""
    plan, hosts = make_plan(count), make_inventory_settings(count)
    scope = schedule.build_probe_scope(plan, "auto", [], False, RUN)
    looks = {make_node_name(number): query_node(plan, number) for number in range(count)}
    opened = {peer: answer["ports"] for peer, answer in looks.items()}
    for number in range(count):
        name = make_node_name(number)
        own = hosts[name]
        own["__preflight"] = query_node_facts(number)
        own["ansible_facts"] = own["__preflight"]["ansible_facts"]
        own["__verify_cluster_node"] = looks[name]
        own["__verify_cluster_links"] = query_links(plan, opened, name, scope, silent)
        own["__verify_cluster_started"] = query_listeners(plan, name, scope)
        own["__verify_cluster_gloo"] = collect_finished_rank(plan, name)
    return plan, hosts


def group_answers(hosts: HostVars) -> dict[str, Any]:
    """Return the answers as the role registers them: all answers to a query in one place."""
    parts = ("node", "links", "closer", "started", "gloo")
    keys = [f"__verify_cluster_{part}" for part in parts]
    return {
        key: {"answers": {host: own[key] for host, own in hosts.items() if key in own}}
        for key in keys
    }


def group_diagnosis_answers(plan: ClusterPlan, hosts: HostVars) -> dict[str, Any]:
    """Return the answers as a diagnosis registers them."""
    kinds = {"looked": "node", "linked": "links", "closer": "closer", "stopped": "started"}
    answer = group_answers(hosts)
    found = {
        f"__diagnose_{name}": answer[f"__verify_cluster_{part}"] for name, part in kinds.items()
    }
    return {"__diagnose_plan": plan, **found}


def make_result(count: int, silent: str = "") -> Result:
    """Return the result of a verification of these answers."""
    plan, hosts = make_hostvars(count, silent)
    scope = schedule.build_probe_scope(plan, "auto", [], False, RUN)
    about = {
        "name": RUN,
        "started": "2026-01-02T03:04:05+00:00",
        "finished": "2026-01-02T03:04:15+00:00",
        "lab": "",
    }
    return verify_cluster.ladder_result(
        plan, hosts, group_answers(hosts), {**OPTIONS, "scope": scope}, about
    )  # type: ignore[no-any-return]
