"""Clusters of any size that answer from recorded observations: the lab's nodes again under more names.

What two lab nodes said (tests/unit/recorded) is given other names, addresses and identities and read by its type, so a
thousand nodes say what a thousand nodes would: as much, and in the same form. Used by benchmarks/scale.py and by tests.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import records

from fullmesh import contract
from fullmesh.model.plan import derive
from fullmesh.model.types import Plan
from fullmesh.observed.ladder import Look, Pair, Probe
from fullmesh.observed.node import NodeFacts
from fullmesh.observed.ranks import Collected, Started
from fullmesh.verify import probe_wants

HostVars = dict[str, dict[str, Any]]
PEER_SETS = ("fullmesh-peers4",)
OF_MASTER = ("master", "rendezvous")


def name_of(number: int) -> str:
    """Of a node; counted from 0."""
    return f"gpu-{number:04d}"


def address_of(number: int) -> str:
    """Its cluster address."""
    return f"10.78.{number // 250}.{number % 250 + 1}"


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
            "ansible_host": f"10.77.{number // 250}.{number % 250 + 1}",
        }
        for number in range(count)
    }


@cache
def recorded(name: str) -> str:
    """A file of records."""
    return (records.RECORDED / f"ladder/{name}.json").read_text()


def renamed(text: str, number: int) -> str:
    """What el1 said, as another node would say it."""
    return (
        text.replace("gpu-el1.lab.example", f"{name_of(number)}.lab.example")
        .replace("10.78.2.11", address_of(number))
        .replace("10.78.2.12", address_of(0))
        .replace("10.77.2.11", f"10.77.{number // 250}.{number % 250 + 1}")
        .replace("10.78.1.11", address_of(number))
        .replace("10.77.1.11", f"10.77.{number // 250}.{number % 250 + 1}")
    )


def first_look(number: int) -> NodeFacts:
    """What node_facts says."""
    said = contract.read(NodeFacts, json.loads(renamed(recorded("el1-facts"), number)))
    for card, one in enumerate(said["ansible_facts"]["fullmesh"]["interfaces"]):
        if one["name"] != "lo":
            one["mac"] = mac_of(number, card)
    said["resolved"] = {}
    return said


def look(plan: Plan, number: int) -> Look:
    """What ladder_node says on a healthy node."""
    name = name_of(number)
    told: Look = json.loads(renamed(recorded("el1"), number))
    facts, survey = told["facts"], told["facts"]["survey"]
    for card, one in enumerate(survey["interfaces"]):
        if one["name"] != "lo":
            one["mac"] = mac_of(number, card)
    facts["names"]["plan"] = {
        **{one: [node["address"]] for one, node in plan["nodes"].items()},
        f"{name}.lab.example": [address_of(number)],
    }
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
    return contract.read(Look, told)


@cache
def pair() -> Pair:
    """One connection of the healthy diagnosis."""
    held = records.diagnosis("healthy")["nodes"]["el1"]["links"]["links"][0]
    return contract.read(Pair, held)


def links_in_full(plan: Plan, looks: dict[str, Look], name: str) -> Probe:
    """What ladder_links says on a healthy node that told of each connection."""
    opened = {peer: told["ports"] for peer, told in looks.items()}
    own = plan["nodes"][name]["address"]
    found: list[Pair] = [
        {
            **pair(),
            **target,
            "source": own,
            "verdict": "open" if target["kind"] != "outside" else "rejected",
        }
        for target in probe_wants.targets(plan, opened, name)
    ]
    return {
        "links": found,
        "bandwidth": [],
        "neighbours": {"count": 1, "entries": {}},
        "seconds": 1.0,
    }


def listeners(plan: Plan, name: str) -> Started:
    """What ladder_gloo says of the listeners of a healthy node that told of each peer."""
    held = records.diagnosis("healthy")["nodes"]["el1"]["started"]["listeners"]
    own = plan["nodes"][name]["address"]
    others = {n: one["address"] for n, one in plan["nodes"].items() if n != name}
    ports = next(iter(held["asked"].values()))
    flows = {f"{a}>{b}": ports for one in others.values() for a, b in ((own, one), (one, own))}
    return {
        "listeners": {
            **held,
            "proved": dict.fromkeys(others, len(ports)),
            "lost": dict.fromkeys(others, [0, 319]),
            "asked": flows,
            "answered": flows,
        }
    }


def climbed(plan: Plan, name: str) -> Collected:
    """What ladder_gloo collects of a rank that got to the top."""
    number = plan["nodes"][name]["node_rank"]
    told: Collected = json.loads(renamed(recorded("el1-gpus"), number))
    (rank,) = told["ranks"].values()
    (own,) = plan["nodes"][name]["ranks"]
    told["ranks"], told["doing"] = {str(own): rank}, {str(own): "done"}
    told["ended"]["codes"] = {str(own): 0}
    told["ended"]["load"] = 0.5  # of the machine that recorded it, which had other work as well
    return contract.read(Collected, told)


def planned(count: int) -> Plan:
    """The plan of so many nodes."""
    return derive(
        {
            name: {k: v for k, v in own.items() if not k.startswith("ansible_")}
            for name, own in settings(count).items()
        }
    )


def hostvars(count: int) -> tuple[Plan, HostVars]:
    """The plan, and all that modules registered, as Ansible has it."""
    plan, held = planned(count), settings(count)
    looks = {name_of(number): look(plan, number) for number in range(count)}
    for number in range(count):
        name = name_of(number)
        said = first_look(number)
        answers = {"links": links_in_full(plan, looks, name), "started": listeners(plan, name)}
        own = held[name]
        own["__preflight"] = said
        own["ansible_facts"] = said["ansible_facts"]
        own["__verify_cluster_node"] = own["__diagnose_node"] = looks[name]
        own["__verify_cluster_links"] = own["__diagnose_links"] = answers["links"]
        own["__verify_cluster_started"] = own["__diagnose_started_job"] = answers["started"]
        own["__verify_cluster_gloo"] = climbed(plan, name)
        own["__diagnose_plan"] = plan
    return plan, held
