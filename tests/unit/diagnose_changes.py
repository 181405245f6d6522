"""Typed changes of what the nodes of a recorded, healthy diagnosis said, one for each way in which a rule fires.

A change edits the answers as the strict reader gave them; `records.diagnosed` reads them again, so a shape that no
module returns is refused (ContractError) and proves nothing.

One file, though long: it is one table, and a rule's change is found by its code beside its neighbours'.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
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
from fullmesh.observed.survey import EfaSurvey, JobProcess, NodeSurvey
from fullmesh.verify.model import NodeAnswers

EL_ADDRESS = DIAGNOSED + "11"
Break = Callable[[World], Any]


def node(world: World, name: str = UB) -> NodeAnswers:
    found: NodeAnswers = world["nodes"][name]
    return found


def survey(world: World, name: str = UB) -> NodeSurvey:
    found: NodeSurvey = world["nodes"][name]["node"]["facts"]["survey"]
    return found


def variable(name: str, value: str, *nodes: str) -> Break:
    def change(world: World) -> None:
        for one in nodes or (UB,):
            survey(world, one)["environment"]["values"][name] = {"value": value, "source": "/etc/x"}

    return change


def nccl_conf(text: str, name: str = UB) -> Break:
    """NCCL's own file says this, read as the survey reads it, and no environment says otherwise."""

    def change(world: World) -> None:
        held = {
            path: parse_nccl_conf(text) if path == OF_ALL else {}
            for path in list_nccl_conf_files({})
        }
        found = survey(world, name)["environment"]
        found["files"].update(held)
        for path, values in held.items():
            for key, value in values.items():
                found["values"][key] = {"value": value, "source": path}

    return change


def unread(name: str = UB) -> Break:
    """NCCL is told to read a file that is not there."""

    def change(world: World) -> None:
        variable("NCCL_CONF_FILE", "/etc/gone.conf", name)(world)
        survey(world, name)["environment"]["unread"] = "/etc/gone.conf"

    return change


def master_addr(value: str, *answers: str) -> Break:
    def change(world: World) -> None:
        variable("MASTER_ADDR", value)(world)
        survey(world)["master_answers"] = list(answers)

    return change


def setting(key: str, value: str, name: str = UB) -> Break:
    def change(world: World) -> None:
        survey(world, name)["sysctls"][key] = value
        facts = node(world, name)["node"]["facts"]["sysctls"]
        if key.endswith("port_range"):
            facts["port_range"] = value

    return change


def unplanned(change: Break) -> Break:
    """Nodes that nobody configured."""

    def both(world: World) -> None:
        for name in (EL, UB):
            survey(world, name)["manifest"] = False
        change(world)

    return both


def put(part: str, value: Any, *nodes: str) -> Break:
    def change(world: World) -> None:
        for one in nodes or (UB,):
            survey(world, one)[part] = copy.deepcopy(value)

    return change


def together(*changes: Break) -> Break:
    def change(world: World) -> None:
        for one in changes:
            one(world)

    return change


def shut(
    verdict: str = "dropped", place: str = "target", kinds: tuple[str, ...] = ("sample", "range")
) -> Break:
    """el1 does not get through to ubuntu1."""

    def change(world: World) -> None:
        pair = "{}>{}".format(*(world["plan"]["nodes"][n]["address"] for n in (EL, UB)))
        ports = []
        for record in node(world, EL)["links"]["links"]:
            if record["kind"] in kinds and record["node"] == UB:
                record.update(verdict=verdict, reached="asked", lost=0)
                ports.append(record["port"])
        for name in (EL, UB):
            listeners = node(world, name)["started"]["listeners"]
            for what in ("asked", "answered"):
                listeners[what][pair] = []
        if place in ("target", "on_the_way"):
            node(world, EL)["started"]["listeners"]["asked"][pair] = ports
        if place == "target":
            node(world, UB)["started"]["listeners"]["asked"][pair] = ports

    return change


def rule(table: str, *expr: dict[str, Any], hook: str = "input", prio: int = 10) -> Break:
    """A table of one chain with one rule on ubuntu1."""

    def change(world: World) -> None:
        nft = survey(world)["nft"]
        chain = {"family": "inet", "table": table, "name": "c", "handle": 1}
        nft["chains"].append(
            {**chain, "type": "filter", "hook": hook, "prio": prio, "policy": "accept"}
        )
        nft["rules"].append(
            {"family": "inet", "table": table, "chain": "c", "handle": 7, "expr": list(expr)}
        )

    return change


def at_card(*expr: dict[str, Any], policy: str = "accept", name: str = UB) -> Break:
    """A chain at the cluster card, in front of all others."""

    def change(world: World) -> None:
        nft = survey(world, name)["nft"]
        chain = {"family": "netdev", "table": "guard", "name": "c", "handle": 1, "policy": policy}
        place = {"type": "filter", "hook": "ingress", "prio": 0, "dev": "eth1"}
        nft["chains"].append({**chain, **place})
        rules = {"family": "netdev", "table": "guard", "chain": "c", "handle": 3}
        nft["rules"] += [{**rules, "expr": list(expr)}] if expr else []

    return change


def unanswered(world: World) -> None:
    """Neither node finds the other's card."""
    for name, peer in ((EL, UB), (UB, EL)):
        for record in node(world, name)["links"]["links"]:
            if record["node"] == peer:
                record.update(verdict="no_route", errno="EHOSTUNREACH", neighbour="failed")


ARP_TYPE = {
    "match": {
        "op": "==",
        "left": {"payload": {"protocol": "ether", "field": "type"}},
        "right": "arp",
    }
}


def dport(first: int, last: int) -> dict[str, Any]:
    left = {"payload": {"protocol": "tcp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": {"range": [first, last]}}}


DROP_RANGE = (dport(50000, 54095), {"drop": None})
NEW = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}


def only_table(world: World) -> None:
    """No firewalld: one table with one rule."""
    survey(world)["nft"] = {"chains": [], "rules": [], "sets": [], "cut": 0}
    survey(world).pop("firewalld")


def half(world: World) -> None:
    """The upper half of the range is shut."""
    shut()(world)
    for record in node(world, EL)["links"]["links"]:
        if (
            record["node"] == UB
            and record["kind"] in ("sample", "range")
            and record["port"] < 52000
        ):
            record.update(verdict="open")
    only_table(world)
    rule("filter", NEW, dport(52000, 54095), {"drop": None})(world)


def store_shut(world: World) -> None:
    """ubuntu1 does not get through to the master's ports."""
    for name in (EL, UB):
        node(world, name)["node"]["tapped"] = False
    for record in node(world, UB)["links"]["links"]:
        if record["kind"] in ("master", "rendezvous"):
            record.update(verdict="dropped", reached="asked")


def served(verdict: str, kind: str) -> Break:
    """el1, the master, serves Ray's control store, to which ubuntu1 does not get through."""

    def change(world: World) -> None:
        world["plan"]["services"] = services.read_services(["ray"], [EL, UB], [])
        for name in (EL, UB):
            node(world, name)["node"]["tapped"] = False
        links = node(world, UB)["links"]["links"]
        record = next(one for one in links if one["kind"] == "master")
        links.append({**record, "port": 6379, "kind": kind, "verdict": verdict, "reached": "asked"})

    return change


def rdma(
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


def gpus(count: int, driver: str = "550.1") -> dict[str, Any]:
    cards = [{"name": "H100", "uuid": f"GPU-{i}", "memory": "80"} for i in range(count)]
    return {"present": count > 0, "driver": driver if count else "", "cuda": "12", "cards": cards}


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def no_fabric() -> dict[str, Any]:
    held = gpus(2)
    return {**held, "cards": [{**card, "fabric": "Not Started"} for card in held["cards"]]}


def event(kind: str, text: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "age": 12.0, "text": text}]


def killed(text: str = "Out of memory: Killed process 77 (python3)") -> Break:
    return put("kernel_log", event("out of memory", text))


def listener(command: str) -> Break:
    def change(world: World) -> None:
        held = {"address": "0.0.0.0", "port": 29500, "pid": 9, "process": "python3"}  # noqa: S104 (recorded)
        survey(world, EL)["sockets"]["listening"].append(
            {**held, "command": command, "age": 7200.0}
        )
        for port in node(world, EL)["node"]["ports"]:
            if port["kind"] == "master":
                port.update(error="EADDRINUSE", holder="python3 (pid 9)")
        links = node(world, UB)["links"]
        links["links"] = [r for r in links["links"] if r["kind"] != "master"]

    return change


def job_in_namespace(command: str) -> Break:
    space = {"pid": 5, "commands": [command], "port_range": "32768 60999"}
    return put("namespaces", [space])


def lossy(world: World) -> None:
    for record in node(world, EL)["links"]["links"]:
        record.update(lost=4, segments=60)


def slow(world: World) -> None:
    rate = {"bytes": 100000, "seconds": 1.0, "complete": False, "lost": 0}
    node(world, EL)["links"]["bandwidth"] = [{**rate, "node": UB, "mbit_s": 9000.0}]
    node(world, UB)["links"]["bandwidth"] = [{**rate, "node": EL, "mbit_s": 8.1}]


def reverse_path(world: World) -> None:
    shut()(world)
    for card in survey(world)["interfaces"]:
        card["rp_filter"] = "1"
    survey(world)["routes"]["10.78.5.11"]["dev"] = "eth0"
    node(world)["started"]["listeners"]["counters"]["TcpExt.IPReversePathFilter"] = 9


def decided(direction: Direction = "out", peer: str = EL_ADDRESS, **answer: Any) -> Break:
    """The kernel of ubuntu1 decides something odd about el1."""
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
        held: list[PacketRoute] = node(world)["links"].setdefault("ways", [])
        held.append(cast("PacketRoute", {**way, **answer}))

    return change


def ends(verdict: Verdict, errno: str = "") -> Break:
    """ubuntu1 does not get through to el1."""

    def change(world: World) -> None:
        for record in node(world)["links"]["links"]:
            record.update(verdict=verdict, reached="asked", errno=errno)

    return change


REFUSED = {"error": "EINVAL", "rule": "blackhole 10.78.5.11"}


SET_MARK = {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 16}}


def one_name(world: World) -> None:
    """ubuntu1 calls itself as el1 does, on one machine."""
    names = node(world, EL)["node"]["facts"]["names"]
    node(world)["node"]["facts"]["names"]["hostname"] = names["hostname"]
    for name in (EL, UB):
        node(world, name)["node"]["facts"]["boot"] = "one"


def one_mac(world: World) -> None:
    """The cluster cards of both were cloned."""
    cards = {c["name"]: c["mac"] for c in survey(world, EL)["interfaces"]}
    for card in survey(world)["interfaces"]:
        card["mac"] = cards["eth1"] if card["name"] == "eth1" else card["mac"]


def taken(held: bool) -> Break:
    """el1 answers for ubuntu1's address; *held*: because it has it, else for some other reason."""

    def change(world: World) -> None:
        (mac,) = [c["mac"] for c in survey(world, EL)["interfaces"] if c["name"] == "eth1"]
        survey(world)["duplicates"] = [mac]
        if held:
            address = world["plan"]["nodes"][UB]["address"]
            node(world, EL)["node"]["facts"]["addresses"][address] = "lo"

    return change


def one_image(*shared: str) -> Break:
    """Nodes that were copied from one image have these in common."""

    def change(world: World) -> None:
        for name in (EL, UB):
            key = "SHA256:one" if "host_keys" in shared else f"SHA256:{name}"
            machine_id = "5" * 64 if "machine_id" in shared else name.ljust(64, "0")
            survey(world, name)["identity"] = {"machine_id": machine_id, "host_keys": [key]}

    return change


def left_behind(world: World) -> None:
    """Of a job that somebody started by hand."""
    held = survey(world)["environment"]["values"]
    held["RANK"] = {"value": "0", "source": "/etc/environment"}


OF_ACCOUNT = {"match": {"op": "==", "left": {"meta": {"key": "skuid"}}, "right": 1500}}


def by_hand(world: World) -> None:
    """ubuntu1 has a neighbour entry for el1 that nobody learnt."""
    node(world)["links"]["neighbours"]["entries"][EL_ADDRESS] = {
        "mac": "02:00:00:00:00:99",
        "state": "reachable",
        "dev": "eth1",
        "by_hand": True,
    }


def learnt_once(world: World) -> None:
    """That entry looks like any other."""
    node(world)["links"]["neighbours"]["entries"][EL_ADDRESS]["by_hand"] = False


def not_asked_for_duplicates(world: World) -> None:
    """el1 could not ask the wire who else has its address."""
    survey(world, EL).pop("duplicates", None)


def counted(name: str, grown: int) -> Break:
    """ubuntu1's kernel counted something while it was probed."""

    def change(world: World) -> None:
        node(world)["started"]["listeners"]["counters"][name] = grown

    return change


def physical(speed: int, name: str) -> Break:
    def change(world: World) -> None:
        for card in survey(world, name)["interfaces"]:
            card.update(physical=True, speed=speed)

    return change


def wrong_master_name(world: World) -> None:
    answers = node(world)["node"]["facts"]["names"]["plan"]
    answers["el1"] = ["127.0.0.1"]


def other_family(world: World) -> None:
    survey(world)["environment"]["values"].pop("GLOO_SOCKET_IFNAME")
    node(world)["node"]["facts"]["addresses"]["fd99::1"] = "eth1"
    survey(world)["own_answers"] = ["fd99::1"]


def unreachable(world: World) -> None:
    world["nodes"][UB] = {"node": {"unreachable": True, "msg": "Connection timed out"}}


def no_python(world: World) -> None:
    world["nodes"][UB] = {"node": {"failed": True, "msg": "python3: not found"}}


def no_probe(world: World) -> None:
    node(world)["links"] = {"failed": True, "msg": "no space left"}


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


def efa(**change: Any) -> Break:
    """EFA on both nodes (what efa.observe makes of a whole one: test_efa.py), with a difference on one."""
    return together(put("efa", EFA, EL, UB), lambda w: survey(w)["efa"].update(change))


CHANGES: dict[str, tuple[str, str, Break]] = {
    "half open": ("DG-101", UB, half),
    "store shut": ("DG-105", EL, store_shut),
    "service shut": ("DG-175", EL, served("dropped", "service")),
    "service that runs shut": ("DG-175", EL, served("rejected", "held")),
    "service elsewhere": ("DG-275", EL, served("refused", "held")),
    "other range": (
        "DG-107",
        UB,
        unplanned(setting("net.ipv4.ip_local_port_range", "20000 30000")),
    ),
    "container": ("DG-108", UB, job_in_namespace("/usr/bin/torchrun train.py")),
    "range small": ("DG-109", UB, setting("net.ipv4.ip_local_port_range", "50000 50009")),
    "range full": (
        "DG-110",
        UB,
        lambda w: survey(w)["sockets"].update(in_range=4000, time_wait=3900),
    ),
    "port in range": ("DG-112", EL, variable("MASTER_PORT", "50004", EL, UB)),
    "second table": ("DG-113", UB, together(shut(), rule("extra", NEW, *DROP_RANGE))),
    "between": ("DG-115", UB, shut(place="on_the_way")),
    "efa": (
        "DG-116",
        UB,
        together(
            shut(place="on_the_way"),
            put("rdma", rdma(vendor="0x1d0f"), EL, UB),
            put("limits", {"memlock": -1}, EL, UB),
        ),
    ),
    "rdma beside": (
        "DG-117",
        UB,
        together(shut(), put("rdma", rdma(), EL, UB), put("limits", {"memlock": -1}, EL, UB)),
    ),
    "gids": (
        "DG-118",
        UB,
        together(
            put("rdma", rdma(), EL),
            put("rdma", rdma(types=())),
            put("limits", {"memlock": -1}, EL, UB),
        ),
    ),
    "gid pin": (
        "VC-148",
        UB,
        together(
            put("rdma", rdma(), EL, UB),
            variable("NCCL_IB_GID_INDEX", "3"),
            put("limits", {"memlock": -1}, EL, UB),
        ),
    ),
    "ifname everywhere": ("DG-119", EL, variable("GLOO_SOCKET_IFNAME", "eth9", EL, UB)),
    "ifname one": ("DG-120", UB, variable("NCCL_SOCKET_IFNAME", "=eth9")),
    "ifname lo": ("DG-121", UB, variable("GLOO_SOCKET_IFNAME", "lo")),
    "own foreign": ("DG-123", UB, put("own_answers", ["203.0.113.9"])),
    "master loopback": ("DG-124", UB, wrong_master_name),
    "master loopback by variable": ("DG-124", UB, master_addr("el1", "127.0.0.1")),
    "localhost": ("DG-125", UB, master_addr("localhost", "127.0.0.1")),
    "nobody": ("DG-126", UB, master_addr("10.78.5.99", "10.78.5.99")),
    "another node": ("DG-126", UB, master_addr("10.78.5.12", "10.78.5.12")),
    "unknown": ("DG-127", UB, master_addr("no-such-node")),
    "master port": ("DG-128", UB, variable("MASTER_PORT", "29999")),
    "stale job": ("DG-130", EL, listener("python3 -m torch.distributed.run train.py")),
    "world size": ("DG-131", UB, variable("WORLD_SIZE", "3")),
    "nnodes": ("DG-131", EL, variable("NNODES", "4", EL, UB)),
    "node rank": ("DG-132", UB, variable("NODE_RANK", "0")),
    "oom": ("DG-133", UB, killed()),
    "nccl interface": (
        "DG-134",
        UB,
        together(
            variable("NCCL_SOCKET_IFNAME", "docker"),
            lambda w: survey(w)["interfaces"].append(
                {
                    **survey(w)["interfaces"][-1],
                    "name": "docker0",
                    "index": 99,
                    "addresses": ["172.17.0.1/16"],
                }
            ),
        ),
    ),
    "family": ("DG-136", UB, other_family),
    "loss": ("DG-138", EL, lossy),
    "slow": ("DG-139", UB, slow),
    "duplicate": ("DG-140", UB, put("duplicates", ["02:00:00:00:00:99"])),
    "duplicate of a node": ("DG-140", EL, together(shut(), taken(held=True))),
    "duplicate by a proxy": ("DG-140", EL, together(shut(), taken(held=False))),
    "rp filter": ("DG-141", UB, reverse_path),
    "neighbours": (
        "DG-142",
        UB,
        put(
            "kernel_log", event("neighbour table", "neighbour: arp_cache: neighbor table overflow!")
        ),
    ),
    "conntrack": (
        "DG-143",
        UB,
        together(
            setting("net.netfilter.nf_conntrack_max", "65536"),
            setting("net.netfilter.nf_conntrack_count", "65500"),
        ),
    ),
    "backlog": ("DG-144", EL, setting("net.core.somaxconn", "1", EL)),
    "dns": ("DG-145", UB, put("reverse", {"10.78.5.11": None})),
    "memlock": (
        "DG-148",
        UB,
        together(
            put("rdma", rdma(), EL, UB),
            put("limits", {"memlock": -1}, EL),
            put("limits", {"memlock": 65536}),
        ),
    ),
    "gpu count": ("DG-149", UB, together(put("gpus", gpus(8), EL), put("gpus", gpus(7)))),
    "gpu driver": ("DG-149", UB, together(put("gpus", gpus(8), EL), put("gpus", gpus(8, "535.2")))),
    "driver changed under its module": (
        "VC-131",
        UB,
        together(
            put("gpus", gpus(8), EL),
            put("gpus", {**gpus(0), "present": True, "failed": True, "said": MISMATCH}),
        ),
    ),
    "fabric not up": ("VC-136", UB, together(put("gpus", gpus(2), EL), put("gpus", no_fabric()))),
    "xid": ("VC-113", UB, put("kernel_log", event("gpu", "NVRM: Xid (PCI:0000:01:00): 79"))),
    "proxy": ("DG-150", UB, variable("https_proxy", "http://proxy:3128")),
    "selinux": (
        "DG-151",
        UB,
        put(
            "selinux",
            {
                "mode": "enforcing",
                "denials": [{"command": "python3", "age": 3.0, "text": "avc: denied"}],
            },
        ),
    ),
    "unreachable": ("DG-201", UB, unreachable),
    "no python": ("DG-202", UB, no_python),
    "no probe": ("DG-203", UB, no_probe),
    "runtime": (
        "DG-214",
        UB,
        lambda w: survey(w)["firewalld"]["zones"]["fullmesh"]["runtime"]["ports"].append("7/tcp"),
    ),
    "speed": ("DG-239", UB, together(physical(100000, EL), physical(1000, UB))),
    "shm": ("DG-248", UB, put("shm", {"size": 16 << 20, "free": 15 << 20})),
    "rdma port": (
        "DG-249",
        UB,
        together(
            put("rdma", rdma(), EL),
            put("rdma", rdma("DOWN")),
            put("limits", {"memlock": -1}, EL, UB),
        ),
    ),
}


def running(rank: int, name: str) -> Break:
    """A rank of a job of two runs on a node."""
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
    return put("jobs", [job], name)


def thrown(reason: str, place: str, count: int = 12) -> Break:
    """The kernel of ubuntu1, which is no other node's, says why it threw packets away."""

    def change(world: World) -> None:
        node(world)["node"]["facts"]["boot"] = "its-own"
        held = node(world)["started"]["listeners"]
        held["drops"] = [{"reason": reason, "place": place, "count": count}]

    return change


JOB_UNIT = {
    "drop_ins": [],
    "nofile": 1048576,
    "allow": [],
    "deny": [],
    "own_network": False,
    "families": "AF_UNIX AF_NETLINK AF_INET6 AF_INET",
}


def only_jobs(world: World) -> None:
    """What the account of jobs sends from ubuntu1 vanishes, what the probe sends does not."""
    links = node(world)["links"]
    shut_ones = [copy.deepcopy(one) for one in links["links"] if one["node"] == EL][:3]
    for one in shut_ones:
        one.update(verdict="dropped", reached="asked")
    links["as_job"] = {"account": "jobs", "uid": 1999, "tried": 4, "links": shut_ones}


def only_us(world: World) -> None:
    """What the probe sends from ubuntu1 vanishes, what the account of jobs sends does not."""
    links = node(world)["links"]
    opened = [copy.deepcopy(one) for one in links["links"] if one["node"] == EL][:3]
    ends("dropped")(world)
    links["as_job"] = {"account": "jobs", "uid": 1999, "tried": 0, "links": [], "past": opened}


def held_to(**limits: int) -> Break:
    """A login of the account of jobs gets these limits on ubuntu1."""

    def change(world: World) -> None:
        login = {"nofile": 1048576, "memlock": -1, "processes": -1, **limits}
        node(world)["links"]["as_job"] = {
            "account": "jobs",
            "uid": 1999,
            "tried": 4,
            "links": [],
            "login": cast("LoginLimits", login),
        }

    return change


def boxed(addresses: list[str], seen_as: str, verdict: Verdict = "open") -> Break:
    """Ranks run in a container on ubuntu1 whose network has these addresses; peers see the other one."""

    def change(world: World) -> None:
        links = [copy.deepcopy(o) for o in node(world)["links"]["links"] if o["node"] == EL][:3]
        for one in links:
            one["verdict"] = verdict
        node(world)["links"]["networks"] = [
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


def hooked(where: str, card: str) -> Break:
    """Something is attached to a card, or to a control group."""
    return put("hooks", [{"at": where, "card": card, "what": "a program without a name (id 7)"}])


CHANGES |= {
    "blackhole": ("DG-155", UB, together(ends("no_route", "EINVAL"), decided(**REFUSED))),
    "answers refused": ("DG-155", UB, together(shut(), decided("answer", **REFUSED))),
    "account refused": ("DG-255", UB, decided(**REFUSED, uid=1000)),
    "refused by mark": (
        "DG-155",
        UB,
        together(
            ends("no_route", "EACCES"),
            rule("marks", SET_MARK, hook="output"),
            decided(error="EACCES", mark=16),
        ),
    ),
    "account filtered": ("DG-255", UB, rule("owners", OF_ACCOUNT, {"drop": None}, hook="output")),
    "astray": ("DG-156", UB, together(shut(), decided("answer", dev="tun0"))),
    "next hop": ("DG-156", UB, together(ends("no_route"), decided(dev="eth1", via="10.78.5.250"))),
    "neighbour of before": (
        "DG-157",
        UB,
        together(ends("dropped"), by_hand, learnt_once, put("duplicates", [], EL)),
    ),
    "neighbour of before, or a machine that only ubuntu1 hears": (
        "DG-140",
        EL,
        together(ends("dropped"), by_hand, learnt_once, not_asked_for_duplicates),
    ),
    "neighbour by hand": ("DG-157", UB, together(ends("dropped"), by_hand)),
    "ipsec": ("DG-158", UB, together(shut(), counted("Xfrm.XfrmInPolBlock", 12))),
    "backlog overflows": (
        "DG-144",
        UB,
        together(
            shut(),
            setting("net.core.somaxconn", "1"),
            counted("TcpExt.ListenOverflows", 12),
        ),
    ),
    "queue": ("DG-158", UB, together(ends("dropped"), counted("Queue.eth1 pfifo", 7))),
    "the packet filter, by the kernel's word": (
        "DG-180",
        UB,
        together(shut(), thrown("NETFILTER_DROP", "nft_do_chain")),
    ),
    "frames for another card": (
        "DG-180",
        UB,
        together(shut(place="on_the_way"), thrown("OTHERHOST", "ip_rcv_core")),
    ),
    "the account of jobs": ("DG-182", UB, only_jobs),
    "the account of jobs, answers too": (
        "DG-182",
        UB,
        together(only_jobs, decided("answer", **REFUSED, uid=1000)),
    ),
    "the account of the probe alone": ("DG-184", UB, only_us),
    "login with few files": ("DG-185", UB, held_to(nofile=4)),
    "login with few processes": ("DG-185", UB, held_to(processes=20)),
    "login that may lock little": (
        "DG-185",
        UB,
        together(
            held_to(memlock=65536),
            put("rdma", rdma(), EL, UB),
            put("limits", {"nofile": 65536, "memlock": -1}, EL, UB),
        ),
    ),
    "ranks behind NAT": ("DG-186", UB, boxed(["172.17.0.2"], DIAGNOSED + "12")),
    "ranks that reach nobody": ("DG-186", UB, boxed(["10.9.0.2"], "", "dropped")),
    "arp dropped at the card": (
        "DG-187",
        UB,
        together(unanswered, at_card(ARP_TYPE, {"drop": None})),
    ),
    "arp dropped with all else": ("DG-187", UB, together(unanswered, at_card(policy="drop"))),
    "unit without a network": ("DG-183", UB, put("job_unit", {**JOB_UNIT, "own_network": True})),
    "unit without IPv4": ("DG-183", UB, put("job_unit", {**JOB_UNIT, "families": "AF_UNIX"})),
    "unit that forbids IPv4": ("DG-183", UB, put("job_unit", {**JOB_UNIT, "families": "~AF_INET"})),
    "unit that may not speak to peers": (
        "DG-183",
        UB,
        put(
            "job_unit",
            {**JOB_UNIT, "deny": ["0.0.0.0/0", "::/0"], "allow": ["127.0.0.0/8", "::1/128"]},
        ),
    ),
    "unit with few files": ("DG-183", UB, put("job_unit", {**JOB_UNIT, "nofile": 4})),
    "xdp": ("DG-181", UB, together(shut(place="on_the_way"), hooked("xdp", "eth1"))),
    "tc": ("DG-181", UB, together(shut(), hooked("tc ingress", "eth1"))),
    "bpf of a control group": ("DG-181", UB, together(shut(), hooked("cgroup ingress", ""))),
    "one host name": ("DG-159", UB, one_name),
    "one hardware address": ("DG-259", UB, one_mac),
    "one machine-id": ("DG-162", UB, one_image("machine_id")),
    "one image": ("DG-162", UB, one_image("machine_id", "host_keys")),
    "rank left behind": ("DG-160", UB, left_behind),
    "card left out by NCCL's file": ("DG-161", UB, nccl_conf("# ours\nNCCL_SOCKET_IFNAME=^eth1\n")),
    "quotes in NCCL's file": ("DG-120", UB, nccl_conf('NCCL_SOCKET_IFNAME="eth1"\n')),
    "card left out": ("DG-161", UB, variable("NCCL_SOCKET_IFNAME", "^eth1")),
    "rank missing": ("DG-132", EL, running(0, EL)),
    "efa driver": ("EF-101", UB, efa(pci=[{"slot": "0000:00:06.0", "driver": ""}])),
    "efa libfabric": ("EF-102", UB, efa(libfabric={})),
    "efa provider": (
        "EF-103",
        UB,
        efa(libfabric={"fi_info": "/usr/bin/fi_info", "rc": 61, "said": "fi_getinfo: -61"}),
    ),
    "efa plugin": ("EF-104", UB, efa(plugin={"path": "", "elsewhere": ""})),
    "efa plugin broken": (
        "EF-105",
        UB,
        efa(plugin={"path": "/x.so", "elsewhere": "", "error": "undefined symbol"}),
    ),
    "efa on one": ("EF-106", UB, efa(pci=[], verbs=[])),
    "efa version": ("EF-107", EL, efa(driver_version="2.10.0")),
    "no nccl.conf": ("DG-171", UB, unread()),
    "efa switched off": ("EF-108", UB, efa(environment={"FI_PROVIDER": "tcp"})),
}
# By code, or by the name of a change where the code is an error as a rule.
WARNINGS = {
    "rank missing",
    "backlog",
    "DG-162",
    "DG-184",
    "DG-255",
    "DG-160",
    "DG-161",
    "DG-171",
    "VC-148",
    "DG-150",
    "DG-239",
    "DG-214",
    "EF-107",
}
WITHOUT_A_VALUE = {"EF-102", "EF-104", "EF-106"}  # what is wrong is that nothing is there
# Made by recording a real fault: what no change of a healthy recording tells.
REAL = {
    "zone-reject": ("VC-202", UB),
    "wrong-zone": ("DG-114", UB),
    "range-drop": ("DG-113", UB),
    "rp-filter": ("DG-141", UB),
    "stale-job": ("DG-130", EL),
    "netns": ("DG-108", UB),
    "mtu": ("VC-208", UB),
    "loss": ("DG-138", UB),
}
