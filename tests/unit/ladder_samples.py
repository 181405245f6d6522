"""Observations of a healthy three-node cluster, to be broken by tests one thing at a time."""

from __future__ import annotations

import copy
from typing import Any

from fullmesh.model.plan import derive_plan
from fullmesh.verify import rank_ends
from fullmesh.verify.model import ClusterObservations

NAMES = ("el1", "ubuntu1", "ubuntu2")
STEPS = tuple(rank_ends.STEPS)


def plan(count: int = 3) -> dict[str, Any]:
    hosts = {
        name: {"fullmesh_address": f"10.78.0.{11 + i}/24", "fullmesh_interface": "eth1"}
        for i, name in enumerate(NAMES[:count])
    }
    return derive_plan(hosts)


def facts(made: dict[str, Any], name: str) -> dict[str, Any]:
    address = made["nodes"][name]["address"]
    return {
        "addresses": {"127.0.0.1": "lo", address: "eth1"},
        "interface": {"name": "eth1", "exists": True, "up": True, "mtu": 1500, "speed": 10000},
        "names": {
            "hostname": name,
            "own": [address],
            "plan": {n: [made["nodes"][n]["address"]] for n in made["nodes"]},
        },
        "limits": {"nofile": 65536, "nofile_hard": 524288, "memlock": -1},
        "sysctls": {
            "port_range": made["data_ports"]["sysctl"].replace(" ", "\t"),
            "reserved_ports": "29400,29500",
            "somaxconn": "4096",
        },
        "versions": {"python": "3.11.2", "torch": "2.13.0+cpu", "torch_nccl": ""},
        "system_python": "3.11.2",
        "kernel": "6.1.0",
        "cpus": 2,
        "clock": 1.0,
        "seconds": 0.2,
    }


def link(target: str, address: str, port: int, kind: str = "sample") -> dict[str, Any]:
    return {
        "node": target,
        "address": address,
        "port": port,
        "kind": kind,
        "verdict": "open" if kind != "outside" else "rejected",
        "remark": "",
        "errno": "",
        "ms": 0.4,
        "rtt_ms": 0.1,
        "source": "",
        "device": "",
        "neighbour": "",
        "attempts": 1,
        "offset": 0.001,
        "offset_error": 0.002,
    }


def ports(made: dict[str, Any], name: str) -> list[dict[str, Any]]:
    first = made["data_ports"]["first"] + 10 * made["nodes"][name]["node_rank"]
    found = [("sample", first + 1), ("sample", first + 2), ("outside", 20000)]
    if name == made["master"]["node"]:
        found += [("master", 29500), ("rendezvous", 29400)]
    return [{"kind": k, "port": p, "error": "", "holder": ""} for k, p in found]


def gpu_data(rank: int) -> dict[str, Any]:
    """One GPU for every rank, NCCL over TCP, and the four jobs of training."""
    job = {"applicable": True, "loss": 0.25, "reference": 0.25}
    said = [
        "n:1:9 [0] NCCL INFO NET/Socket : Using [0]eth1:10.78.0.11<0>",
        "n:1:9 [0] NCCL INFO Using network Socket",
    ]
    sizes = [
        {"bytes": 1024, "us": 90.0, "alg_gbit_s": 0.09, "bus_gbit_s": 0.12},
        {"bytes": 67108864, "us": 90000.0, "alg_gbit_s": 5.9, "bus_gbit_s": max(5.9, 7.9 - rank)},
    ]
    card = {"applicable": True, "device": "cuda:0", "backend": "nccl", "name": "NVIDIA L4"}
    return {
        "gpus": {**card, "nccl": "2.27.7"},
        "nccl": {"applicable": True, "seconds": 1.0, "said": said},
        "nccl_sizes": {"applicable": True, "backend": "nccl", "sizes": sizes},
        "nccl_tests": {"applicable": False},
        **dict.fromkeys(("ddp", "amp", "subgroups", "fsdp"), job),
        **dict.fromkeys(("gpu_ddp", "gpu_amp", "gpu_subgroups", "gpu_fsdp"), job),
    }


def rank_events(made: dict[str, Any], name: str, rank: int) -> list[dict[str, Any]]:
    address, first = made["nodes"][name]["address"], made["data_ports"]["first"]
    data: dict[str, Any] = {
        "import": {"torch": "2.13.0", "gloo": True},
        "groups": {"groups": [[0, 1]]},
        "latency": {"latency_us": 210.0},
        "bandwidth": {"mib": 64, "seconds_best": 0.1, "bus_gbit_s": max(5.5, 7.5 - rank)},
        "sockets": {"listeners": [[address, first + 77]], "connections": 3},
    }
    data |= gpu_data(rank)
    if rank == 0:
        data["sockets"]["listeners"] += [["::", 29500], ["::", 29400]]
    events = []
    for step in STEPS:
        events.append({"step": step, "state": "begin", "at": 0.0})
        events.append(
            {"step": step, "state": "ok", "seconds": 0.1, "text": "", "data": data.get(step, {})}
        )
    return [*events, {"step": "done", "state": "ok", "seconds": 1.4, "text": "", "data": {}}]


def node(made: dict[str, Any], name: str) -> dict[str, Any]:
    ranks = made["nodes"][name]["ranks"]
    address = made["nodes"][name]["address"]
    links = [
        link(peer, made["nodes"][peer]["address"], port["port"], port["kind"])
        for peer in made["nodes"]
        if peer != name
        for port in ports(made, peer)
    ]
    return {
        "node": {
            "facts": facts(made, name),
            "nccl": {
                "version": "2.32.3",
                "path": "/usr/lib64/libnccl.so.2",
                "address": address,
                "port": made["data_ports"]["first"] + 5,
                "reason": "",
                "error": "",
                "seconds": 0.3,
            },
            "ports": ports(made, name),
            "tapped": True,
        },
        "links": {
            "links": links,
            "bandwidth": [],
            "neighbours": {"count": 0, "entries": {}},
            "seconds": 0.05,
        },
        "started": {
            "listeners": {"proved": {}, "refused": 0, "strangers": [], "asked": {}, "answered": {}}
        },
        "gloo": {
            "done": True,
            "started": True,
            "doing": {},
            "ended": {"codes": {str(r): 0 for r in ranks}, "killed": [], "seconds": 3.0},
            "ranks": {str(r): {"events": rank_events(made, name, r), "log": ""} for r in ranks},
        },
    }


def healthy(count: int = 3, **change: Any) -> ClusterObservations:
    made = plan(count)
    nodes = {name: node(made, name) for name in made["nodes"]}
    return ClusterObservations(plan=made, nodes=copy.deepcopy(nodes), inventory="inv", **change)
