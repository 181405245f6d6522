"""Typed changes of the answers of a recorded, healthy diagnosis. The case files of the causes use them.

A change edits the answers as read by their type. `records.diagnose_answers` reads them again and
raises ContractError for a form that no module returns, which would prove nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ansible.module_utils.fullmesh.survey.nccl_conf import (
    OF_ALL,
    list_nccl_conf_files,
    parse_nccl_conf,
)
from records import DIAGNOSED, World
from records import EL1 as EL
from records import UBUNTU1 as UB

from fullmesh.model import services
from fullmesh.observed.ladder import Direction, LoginLimits, PacketRoute, Verdict
from fullmesh.observed.survey import EfaSurvey, JobLogin, JobProcess, NodeSurvey
from fullmesh.verify.model import ClusterObservations, NodeAnswers

EL_ADDRESS = DIAGNOSED + "11"


Break = Callable[[World], Any]


@dataclass(frozen=True)
class Change:
    """A difference on a node.

    Attributes:
        node: named by the finding.
        apply: changes a recorded world.
        severity: of the finding, if it differs from that of the cause.
    """

    node: str
    apply: Break
    severity: str = ""


def get_node(world: World, name: str = UB) -> NodeAnswers:
    found: NodeAnswers = world["nodes"][name]
    return found


def get_survey(world: World, name: str = UB) -> NodeSurvey:
    found: NodeSurvey = world["nodes"][name]["node"]["facts"]["survey"]
    return found


def set_variable(name: str, value: str, *nodes: str) -> Break:
    def change(world: World) -> None:
        for one in nodes or (UB,):
            get_survey(world, one)["environment"]["values"][name] = {
                "value": value,
                "source": "/etc/x",
            }

    return change


def set_nccl_conf(text: str, name: str = UB) -> Break:
    """Set a variable in NCCL's own file, as the survey reads it, and in no environment."""

    def change(world: World) -> None:
        held = {
            path: parse_nccl_conf(text) if path == OF_ALL else {}
            for path in list_nccl_conf_files({})
        }
        found = get_survey(world, name)["environment"]
        found["files"].update(held)
        for path, values in held.items():
            for key, value in values.items():
                found["values"][key] = {"value": value, "source": path}

    return change


def set_master_address(value: str, *answers: str) -> Break:
    def change(world: World) -> None:
        set_variable("MASTER_ADDR", value)(world)
        get_survey(world)["master_answers"] = list(answers)

    return change


def change_sysctl(key: str, value: str, name: str = UB) -> Break:
    def change(world: World) -> None:
        get_survey(world, name)["sysctls"][key] = value
        facts = get_node(world, name)["node"]["facts"]["sysctls"]
        if key.endswith("port_range"):
            facts["port_range"] = value

    return change


def set_survey_part(part: str, value: Any, *nodes: str) -> Break:
    def change(world: World) -> None:
        for one in nodes or (UB,):
            get_survey(world, one)[part] = copy.deepcopy(value)

    return change


def combine(*changes: Break) -> Break:
    def change(world: World) -> None:
        for one in changes:
            one(world)

    return change


def block_links(
    verdict: str = "dropped", place: str = "target", kinds: tuple[str, ...] = ("sample", "range")
) -> Break:
    """Block connections from el1 to ubuntu1."""

    def change(world: World) -> None:
        pair = "{}>{}".format(*(world["plan"]["nodes"][n]["address"] for n in (EL, UB)))
        ports = []
        for record in get_node(world, EL)["links"]["links"]:
            if record["kind"] in kinds and record["node"] == UB:
                record.update(verdict=verdict, reached="asked", lost=0)
                ports.append(record["port"])
        for name in (EL, UB):
            listeners = get_node(world, name)["started"]["listeners"]
            for what in ("asked", "answered"):
                listeners[what][pair] = []
        if place in ("target", "on_the_way"):
            get_node(world, EL)["started"]["listeners"]["asked"][pair] = ports
        if place == "target":
            get_node(world, UB)["started"]["listeners"]["asked"][pair] = ports

    return change


def add_rule(table: str, *expr: dict[str, Any], hook: str = "input", prio: int = 10) -> Break:
    """Add a table with one chain and one rule on ubuntu1."""

    def change(world: World) -> None:
        nft = get_survey(world)["nft"]
        chain = {"family": "inet", "table": table, "name": "c", "handle": 1}
        nft["chains"].append(
            {**chain, "type": "filter", "hook": hook, "prio": prio, "policy": "accept"}
        )
        nft["rules"].append(
            {"family": "inet", "table": table, "chain": "c", "handle": 7, "expr": list(expr)}
        )

    return change


def add_interface_chain(*expr: dict[str, Any], policy: str = "accept", name: str = UB) -> Break:
    """Add a chain at the cluster interface, in front of all others."""

    def change(world: World) -> None:
        nft = get_survey(world, name)["nft"]
        chain = {"family": "netdev", "table": "guard", "name": "c", "handle": 1, "policy": policy}
        place = {"type": "filter", "hook": "ingress", "prio": 0, "dev": "eth1"}
        nft["chains"].append({**chain, **place})
        rules = {"family": "netdev", "table": "guard", "chain": "c", "handle": 3}
        nft["rules"] += [{**rules, "expr": list(expr)}] if expr else []

    return change


def remove_neighbors(world: World) -> None:
    """Let neither node resolve the other's hardware address."""
    for name, peer in ((EL, UB), (UB, EL)):
        for record in get_node(world, name)["links"]["links"]:
            if record["node"] == peer:
                record.update(verdict="no_route", errno="EHOSTUNREACH", neighbour="failed")


ARP_TYPE = {
    "match": {
        "op": "==",
        "left": {"payload": {"protocol": "ether", "field": "type"}},
        "right": "arp",
    }
}


def match_port(first: int, last: int) -> dict[str, Any]:
    left = {"payload": {"protocol": "tcp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": {"range": [first, last]}}}


NEW = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}


def replace_firewalld(world: World) -> None:
    """Remove firewalld, and add one table with one rule."""
    get_survey(world)["nft"] = {"chains": [], "rules": [], "sets": [], "cut": 0}
    get_survey(world).pop("firewalld")


def block_service(verdict: str, kind: str) -> Break:
    """Let the master el1 serve Ray's control store, and block ubuntu1's connection to it."""

    def change(world: World) -> None:
        world["plan"]["services"] = services.read_services(["ray"], [EL, UB], [])
        for name in (EL, UB):
            get_node(world, name)["node"]["tapped"] = False
        links = get_node(world, UB)["links"]["links"]
        record = next(one for one in links if one["kind"] == "master")
        links.append({**record, "port": 6379, "kind": kind, "verdict": verdict, "reached": "asked"})

    return change


def make_rdma_ports(
    state: str = "ACTIVE", vendor: str = "0x15b3", types: tuple[str, ...] = ("RoCE v2",)
) -> list[dict[str, Any]]:
    gids = [{"index": i, "type": kind, "gid": "fe80::1"} for i, kind in enumerate(types)]
    return [
        {
            "device": "mlx5_0",
            "port": 1,
            "state": state,
            "physical": "LinkUp",
            "layer": "Ethernet",
            "rate": "100",
            "vendor": vendor,
            "gids": gids,
        }
    ]


def make_gpus(count: int, driver: str = "550.1") -> dict[str, Any]:
    cards = [{"name": "H100", "uuid": f"GPU-{i}", "memory": "80"} for i in range(count)]
    return {"present": count > 0, "driver": driver if count else "", "cuda": "12", "cards": cards}


def make_events(kind: str, text: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "age": 12.0, "text": text}]


def add_listener(command: str) -> Break:
    def change(world: World) -> None:
        held = {"address": "0.0.0.0", "port": 29500, "pid": 9, "process": "python3"}  # noqa: S104 (recorded)
        get_survey(world, EL)["sockets"]["listening"].append(
            {**held, "command": command, "age": 7200.0}
        )
        for port in get_node(world, EL)["node"]["ports"]:
            if port["kind"] == "master":
                port.update(error="EADDRINUSE", holder="python3 (pid 9)")
        links = get_node(world, UB)["links"]
        links["links"] = [r for r in links["links"] if r["kind"] != "master"]

    return change


def change_route(direction: Direction = "out", peer: str = EL_ADDRESS, **answer: Any) -> Break:
    """Let ubuntu1's kernel report a wrong route for packets to or from el1."""
    way: PacketRoute = {
        "peer": peer,
        "direction": direction,
        "ports": [50000],
        "error": "",
        "dev": "",
        "via": "",
        "source": "",
        "mark": 0,
        "uid": -1,
        "rule": "",
    }

    def change(world: World) -> None:
        held: list[PacketRoute] = get_node(world)["links"].setdefault("ways", [])
        held.append(cast("PacketRoute", {**way, **answer}))

    return change


def block_reply_links(verdict: Verdict, errno: str = "") -> Break:
    """Block connections from ubuntu1 to el1."""

    def change(world: World) -> None:
        for record in get_node(world)["links"]["links"]:
            record.update(verdict=verdict, reached="asked", errno=errno)

    return change


REFUSED = {"error": "EINVAL", "rule": "blackhole 10.78.5.11"}


def copy_image(*shared: str) -> Break:
    """Give the nodes the same ids, as after a copy of one image."""

    def change(world: World) -> None:
        for name in (EL, UB):
            key = "SHA256:one" if "host_keys" in shared else f"SHA256:{name}"
            machine_id = "5" * 64 if "machine_id" in shared else name.ljust(64, "0")
            get_survey(world, name)["identity"] = {"machine_id": machine_id, "host_keys": [key]}

    return change


def add_neighbor(world: World) -> None:
    """Add a manual neighbor entry for el1 on ubuntu1."""
    get_node(world)["links"]["neighbours"]["entries"][EL_ADDRESS] = {
        "mac": "02:00:00:00:00:99",
        "state": "reachable",
        "dev": "eth1",
        "by_hand": True,
    }


def make_neighbor_learned(world: World) -> None:
    """Give that entry the same form as a learned one."""
    get_node(world)["links"]["neighbours"]["entries"][EL_ADDRESS]["by_hand"] = False


def raise_counter(name: str, grown: int) -> Break:
    """Raise a counter of ubuntu1's kernel during the probe."""

    def change(world: World) -> None:
        get_node(world)["started"]["listeners"]["counters"][name] = grown

    return change


def set_wrong_master_name(world: World) -> None:
    answers = get_node(world)["node"]["facts"]["names"]["plan"]
    answers["el1"] = ["127.0.0.1"]


def use_other_family(world: World) -> None:
    get_survey(world)["environment"]["values"].pop("GLOO_SOCKET_IFNAME")
    get_node(world)["node"]["facts"]["addresses"]["fd99::1"] = "eth1"
    get_survey(world)["own_answers"] = ["fd99::1"]


EFA: EfaSurvey = {
    "vendor": "Amazon EC2",
    "instance": "i-0123456789abcdef0",
    "pci": [{"slot": "0000:00:06.0", "driver": "efa"}],
    "verbs": [{"name": "rdmap0s6", "state": "ACTIVE"}],
    "driver_version": "2.13.0g",
    "libfabric": {
        "fi_info": "/opt/amazon/efa/bin/fi_info",
        "version": "1.22.0amzn4.0",
        "domains": ["rdmap0s6-rdm"],
        "rc": 0,
        "said": "",
    },
    "plugin": {"path": "/opt/amazon/ofi-nccl/lib64/libnccl-net.so", "elsewhere": "", "error": ""},
    "environment": {},
}


def add_efa(**change: Any) -> Break:
    """Put an EFA on both nodes (test_efa.py covers efa.observe), with a difference on one."""
    return combine(
        set_survey_part("efa", EFA, EL, UB), lambda w: get_survey(w)["efa"].update(change)
    )


def make_job_login(*steps: tuple[str, ...], **more: Any) -> JobLogin:
    """Report the first second of a job, with failed steps: (step, subject, error, source)."""
    names = ("step", "subject", "error", "source")
    found: dict[str, Any] = {
        "account": "jobs",
        "known": True,
        "steps": [dict(zip(names, (*step, "", "")[:4], strict=True)) for step in steps],
        **{part: {} for part in ("command", "login", "file", "sources")},
        "seconds": 0.2,
    }
    return cast("JobLogin", {**found, **more})


def fail_job_start(*steps: tuple[str, ...], **more: Any) -> Callable[[ClusterObservations], None]:
    """Report the same for ubuntu1's job in a verification."""

    def change(seen: ClusterObservations) -> None:
        facts = seen.nodes[UB]["node"]["facts"]
        facts["survey"]["job_start"] = make_job_login(*steps, **more)

    return change


def run_rank(rank: int, name: str) -> Break:
    """Let a rank of a job of two run on a node."""
    job: JobProcess = {
        "pid": 9,
        "command": "python3",
        "age": 9.0,
        "environment": {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_PORT": "29500",
            "MASTER_ADDR": "10.78.5.11",
        },
    }
    return set_survey_part("jobs", [job], name)


def limit_logins(**limits: int) -> Break:
    """Limit the logins of the job's account on ubuntu1."""

    def change(world: World) -> None:
        login = {"nofile": 1048576, "memlock": -1, "processes": -1, **limits}
        get_node(world)["links"]["as_job"] = {
            "account": "jobs",
            "uid": 1999,
            "tried": 4,
            "links": [],
            "login": cast("LoginLimits", login),
        }

    return change


def run_in_container(addresses: list[str], seen_as: str, verdict: Verdict = "open") -> Break:
    """Run ranks in a container on ubuntu1, in a network with these addresses. Peers see the other address."""

    def change(world: World) -> None:
        links = [copy.deepcopy(o) for o in get_node(world)["links"]["links"] if o["node"] == EL][:3]
        for one in links:
            one["verdict"] = verdict
        get_node(world)["links"]["networks"] = [
            {
                "pid": 4711,
                "command": "python train.py",
                "addresses": addresses,
                "tried": 3,
                "links": [] if verdict == "open" else links,
                "seen_as": seen_as,
            }
        ]

    return change
