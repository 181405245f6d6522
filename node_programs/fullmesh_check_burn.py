# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Measure the devices and transfers of this node for `fullmesh-check burn`, and compare them.

torch runs in processes of its own (fullmesh_burn_rank.py). Their figures are compared with those of the peers that
take part, and with the earlier runs of this node.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import statistics
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_check_links as check_links
import fullmesh_check_node as check_node
from fullmesh_check_node import HealthFinding, NoCheckError
from fullmesh_foreign_text import list_objects, parse_decimal, parse_foreign_json
from fullmesh_start_program import clean_text, find_device_groups

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from typing import Any

PYTHON = "/opt/fullmesh/venv/bin/python"  # if none is given
RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fullmesh_burn_rank.py")
HISTORY = "/var/lib/fullmesh/burn.json"
MOST_RUNS, LEAST_RUNS = 20, 3  # that are kept, and that a comparison needs
MOST_ROUNDS = 8  # of pairs of nodes, however many nodes there are
JOIN_SECONDS = 45.0  # for the other nodes, whose torch starts slowly
RESERVE_SECONDS = 3.0  # to compare the figures
ACCOUNT = "nobody"  # of torch's processes, if root starts them
MOST_DEVICES = 64  # of a node
MOST_RATE = 1e6  # TFLOP/s or GB/s
SETTINGS = ("GLOO_", "NCCL_", "CUDA_")  # of the environment file
# Shares of the others' median below which a figure is a finding. Other work slows CPUs and Ethernet more than GPUs.
LEAST_GPU, LEAST_CPU, LEAST_TRANSFER = 0.85, 0.5, 0.5
FIX = "compare clocks, power limits and temperatures of the nodes: nvidia-smi -q, cpupower"
FIX_TRANSFER = "./fullmesh diagnose -i INVENTORY on the controller, and compare: ethtool, ibstat"
FIX_WRONG = "run no jobs on it: dcgmi diag -r 3, and replace the GPU or the memory"


class BurnPlace(NamedTuple):
    """This node among the nodes that take part.

    Attributes:
        names, addresses: of the nodes, in the same order on all of them.
        own: this node's number.
        store: where they meet.
    """

    names: list[str]
    own: int
    store: dict[str, Any]
    addresses: tuple[str, ...] = ()


class DeviceFigures(NamedTuple):
    """What a rank measured with its device.

    Attributes:
        node: number of the node.
        device: its name.
        tflops: of matrix products.
        reduction: GB/s of all-reduces, 0.0 if there is only one rank.
        pairs: number of another node -> GB/s of exchanges with it.
        wrong: what it computed wrong, or "".
    """

    node: int
    device: str
    tflops: float
    reduction: float = 0.0
    pairs: Mapping[int, float] = {}
    wrong: str = ""


class BurnAnswer(NamedTuple):
    """The version of torch, and the figures of all ranks."""

    torch: str
    ranks: list[DeviceFigures]


def find_place(hosts: str | list[str], peers: bool, folder: str) -> BurnPlace:
    """Return this node's place. The first node by address has the store, at the port of the job's master.

    Raises:
        NoCheckError: the peers, or their port, are not known.
    """
    name = os.uname()[1]
    if not peers:
        return BurnPlace([name], 0, {"path": os.path.join(folder, "store")})
    own = check_node.find_own_entry()
    port = (check_node.read_plan().get("master") or {}).get("port")
    if own is None or not isinstance(port, int):
        raise NoCheckError(f"{check_node.NODES} does not name this node and a port")
    others = check_links.list_peers(hosts)
    nodes = sorted(
        [(str(own["address"]), str(own["name"])), *((o.address, o.name) for o in others)]
    )
    place = nodes.index((str(own["address"]), str(own["name"])))
    addresses, names = zip(*nodes)
    store = {"address": addresses[0], "port": port}
    return BurnPlace(list(names), place, store, addresses)


def refuse_during_jobs() -> None:
    """Refuse to measure GPUs that a job uses.

    Raises:
        NoCheckError: a process uses one.
    """
    status, text = check_node.run_tool(
        "nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader", seconds=10.0
    )
    pid = parse_decimal((text.split() or [""])[0])
    if status == 0 and pid:
        raise NoCheckError(f"process {pid} uses a GPU, and burn would disturb it")


def list_partners(node: int, nodes: int) -> list[int]:
    """Return the partner of a node in each round (the circle method of a tournament), *nodes* if it has none."""
    last = nodes + nodes % 2 - 1
    found = []
    for turn in range(min(last, MOST_ROUNDS)):
        partner = (turn * ((last + 1) // 2) if node == last else turn - node) % last
        found.append(last if partner == node else partner)
    return found


def drop_root() -> list[str]:
    """Return the command that gives up root before torch starts, [] for other accounts.

    torch's store and Gloo listen on the cluster's network, and parse the data of any client (as in the verification).
    """
    if os.geteuid() != 0:
        return []
    groups = find_device_groups()[0]
    account = pwd.getpwnam(ACCOUNT)
    more = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    return [
        "setpriv",
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        more,
        "--no-new-privs",
    ]


def run_ranks(place: BurnPlace, end: float, python: str) -> BurnAnswer:
    """Run torch, and return the figures of all ranks.

    Raises:
        NoCheckError: there is no torch, or it gives no figures.
    """
    if not os.access(python, os.X_OK):
        raise NoCheckError(f"torch is not installed ({python} is missing)")
    seconds = end - time.monotonic() - RESERVE_SECONDS
    task = {
        "node": place.own,
        "nodes": len(place.names),
        "local": 0,
        "partners": list_partners(place.own, len(place.names)),
        "store": place.store,
        "seconds": max(1.0, seconds),
        "join_seconds": max(1.0, min(JOIN_SECONDS, seconds)),
    }
    lines = check_node.read_text(check_node.ENVIRONMENT).splitlines()
    pairs = (line.split("=", 1) for line in lines if line.startswith(SETTINGS) and "=" in line)
    with set_variables({name: value.strip("'\"") for name, value in pairs}):
        command = (*drop_root(), python, "-B", "-s", RANK, json.dumps(task))
        status, text = check_node.run_tool(*command, seconds=seconds + 2)
    answer: Any = None
    for line in text.splitlines():  # torch writes warnings, too
        with contextlib.suppress(ValueError):
            answer = parse_foreign_json(line) if line.startswith("{") else answer
    if not isinstance(answer, dict):
        last = clean_text((text.splitlines() or [""])[-1])
        raise NoCheckError(f"torch gave no figures (exit status {status}) {last}".strip())
    if "error" in answer:
        raise NoCheckError(describe_error(clean_text(answer["error"]), place, python))
    return read_answer(answer, place)


def read_answer(answer: Mapping[str, Any], place: BurnPlace) -> BurnAnswer:
    """Read the answer of this node's ranks. The texts in it come from all nodes, of which one may be broken.

    Raises:
        NoCheckError: a part is missing or impossible.
    """
    counts, results = answer.get("counts"), answer.get("results")
    if not (
        isinstance(counts, list)
        and len(counts) == len(place.names)
        and all(type(one) is int and 1 <= one <= MOST_DEVICES for one in counts)
    ):
        raise NoCheckError(f"torch gave no valid numbers of devices: {clean_text(counts)}")
    nodes = [node for node, count in enumerate(counts) for _ in range(count)]
    if not isinstance(results, list) or len(results) != len(nodes):
        raise NoCheckError(f"torch did not give the figures of all {len(nodes)} devices")
    ranks = [read_figures(text, node, place.names) for node, text in zip(nodes, results)]
    return BurnAnswer(clean_text(answer.get("torch")), ranks)


def read_figures(text: object, node: int, names: Sequence[str]) -> DeviceFigures:
    """Read the figures of a rank. Its node is known from its number, so no node can speak for another one.

    Raises:
        NoCheckError: they are missing or impossible.
    """
    try:
        found = parse_foreign_json(text if isinstance(text, str) else "")
        pairs = found.get("pairs", {})
        numbers = {parse_decimal(other, len(names) - 1): value for other, value in pairs.items()}
        return DeviceFigures(
            node,
            clean_text(found["device"]),
            read_rate(found["tflops"]),
            read_rate(found.get("reduction", 0.0)),
            {other: read_rate(value) for other, value in numbers.items() if other is not None},
            clean_text(found["wrong"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as damage:
        why = clean_text(f"{type(damage).__name__}: {damage}")
        raise NoCheckError(f"{names[node]} gave no valid figures ({why})") from None


def read_rate(value: object) -> float:
    """Return a rate.

    Raises:
        ValueError: it is not a number that a device can reach.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_RATE:
        return float(value)
    raise ValueError(f"{value!r:.40} is not a rate")


@contextlib.contextmanager
def set_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the programs that start meanwhile. A check has a process, and so an environment, of its own."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def describe_error(error: str, place: BurnPlace, python: str) -> str:
    """Describe why the ranks gave no figures."""
    if "No module named 'torch'" in error:
        return f"torch is not installed in {os.path.dirname(os.path.dirname(python))}"
    if len(place.names) > 1 and ("imeout" in error or "timed out" in error or "onnect" in error):
        nodes = ", ".join(place.names)
        return f"not all nodes took part: start it on {nodes} at the same time ({error[:120]})"
    return error


# --- the comparison -----------------------------------------------------------------------------------


def is_slow(value: float, others: Sequence[float], least: float) -> bool:
    """Return whether a figure is below a share of the others' median."""
    return bool(others) and value < least * statistics.median(others)


def describe_share(value: float, others: Sequence[float]) -> str:
    """Describe a figure as a share of the others' median."""
    return f"{100 * value / statistics.median(others):.0f} %"


def compare_devices(
    own: int, ranks: Sequence[DeviceFigures], earlier: Sequence[Mapping[str, Any]]
) -> Iterator[HealthFinding]:
    """Compare the products of this node's devices with equal devices, and with the earlier runs."""
    local = [one for one in ranks if one.node == own]
    for at, one in enumerate(local):
        is_cpu = one.device.startswith("CPU")
        name = "the CPU" if is_cpu else f"GPU {at} ({one.device})"
        least = LEAST_CPU if is_cpu else LEAST_GPU
        value = one.tflops
        # the two processes of a node without GPUs share its CPUs
        peers = [
            two.tflops
            for two in ranks
            if two is not one and two.device == one.device and not (is_cpu and two.node == own)
        ]
        before = [run["tflops"][at] for run in earlier if at < len(run["tflops"])]
        for others, whose in ((peers, "of its peers"), (before, "of this node's earlier runs")):
            enough = len(others) >= (LEAST_RUNS if others is before else 1)
            if enough and is_slow(value, others, least):
                share = describe_share(value, others)
                yield HealthFinding(
                    "HC-171", f"{name} computes {value:.3g} TFLOP/s, {share} {whose}", FIX
                )
                break


def compare_transfers(
    place: BurnPlace, ranks: Sequence[DeviceFigures], earlier: Sequence[Mapping[str, Any]]
) -> Iterator[HealthFinding]:
    """Compare this node's pairs with those of the other nodes, and the all-reduce with the earlier runs."""
    pairs = {(one.node, partner): value for one in ranks for partner, value in one.pairs.items()}
    mine = [value for (node, _), value in pairs.items() if node == place.own]
    others = [value for ends, value in pairs.items() if place.own not in ends]
    # a slow link of the node itself is part of all its pairs
    if mine and is_slow(max(mine), others, LEAST_TRANSFER):
        share = describe_share(max(mine), others)
        text = f"this node exchanges at most {max(mine):.3g} GB/s with its peers, {share} of the others"
        yield HealthFinding("HC-172", text, FIX_TRANSFER)
        return
    reduction = [one.reduction for one in ranks if one.reduction]
    before = [run["reduction"] for run in earlier if run.get("reduction")]
    if len(before) < LEAST_RUNS or not reduction or has_slow_node(place, ranks):
        return
    if is_slow(reduction[0], before, LEAST_TRANSFER):
        share = describe_share(reduction[0], before)
        ends = f" with {len(place.names) - 1} nodes" if len(place.names) > 1 else ""
        text = f"an all-reduce{ends} reaches {reduction[0]:.3g} GB/s, {share} of this node's earlier runs"
        yield HealthFinding("HC-172", text, FIX_TRANSFER)


def has_slow_node(place: BurnPlace, ranks: Sequence[DeviceFigures]) -> bool:
    """Return whether a node is slower than its peers, or computes wrong. It slows the all-reduces of all."""
    return any(
        judge_figures(place._replace(own=node), ranks, []) for node in range(len(place.names))
    )


def judge_figures(
    place: BurnPlace, ranks: Sequence[DeviceFigures], earlier: Sequence[Mapping[str, Any]]
) -> list[HealthFinding]:
    """Return the findings about this node."""
    wrong = [one.wrong for one in ranks if one.node == place.own and one.wrong]
    found = (
        [HealthFinding("HC-173", f"this node computes wrong: {wrong[0]}", FIX_WRONG)]
        if wrong
        else []
    )
    found += compare_devices(place.own, ranks, earlier)
    # a node that computes slowly also sends slowly, and its peers wait for it
    slow = any(list(compare_devices(node, ranks, [])) for node in range(len(place.names)))
    return found if found or slow else list(compare_transfers(place, ranks, earlier))


# --- the history --------------------------------------------------------------------------------------


def read_runs() -> list[dict[str, Any]]:
    """Return the earlier runs, [] if they are damaged."""
    try:
        found = parse_foreign_json(check_node.read_bytes(HISTORY))
    except ValueError:
        return []
    runs = list_objects(found.get("runs")) if isinstance(found, dict) else []
    return [one for one in runs if isinstance(one.get("key"), str) and is_figures(one)]


def is_figures(run: Mapping[str, Any]) -> bool:
    """Return whether a run of the history has figures."""
    values = run.get("tflops")
    numbers = [*(values if isinstance(values, list) else [None]), run.get("reduction", 0.0)]
    return all(isinstance(one, (int, float)) for one in numbers)


def write_runs(runs: Sequence[Mapping[str, Any]]) -> None:
    """Replace the history in one step. An account that cannot write it keeps none."""
    text = json.dumps({"runs": runs[-MOST_RUNS:]}) + "\n"
    folder = os.path.dirname(HISTORY)
    with contextlib.suppress(OSError):
        handle, path = tempfile.mkstemp(prefix="burn-", dir=folder)
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
        os.replace(path, HISTORY)


def check_burn(
    hosts: str | list[str], peers: bool, end: float, python: str = ""
) -> Generator[HealthFinding, None, dict[str, Any]]:
    """Measure this node, compare the figures, and return them. Runs in which all nodes are healthy become its history.

    Raises:
        NoCheckError: there is no torch, a job runs, or not all nodes took part.
    """
    refuse_during_jobs()
    with tempfile.TemporaryDirectory(prefix="fullmesh-burn-") as folder:
        if os.geteuid() == 0:
            os.chown(folder, pwd.getpwnam(ACCOUNT).pw_uid, -1)
        place = find_place(hosts, peers, folder)
        answer = run_ranks(place, end, python or PYTHON)
    ranks = answer.ranks
    local = [one for one in ranks if one.node == place.own]
    key = json.dumps([answer.torch, [one.device for one in local], place.addresses])
    runs = read_runs()
    earlier = [one for one in runs if one["key"] == key]
    found = judge_figures(place, ranks, earlier)
    yield from found
    figures = {
        "tflops": [round(one.tflops, 6) for one in local],
        "reduction": round(local[0].reduction, 6),
    }
    if not found and not has_slow_node(place, ranks):
        write_runs([*runs, {"time": int(time.time()), "key": key, **figures}])
    return {**figures, "nodes": place.names, "earlier": len(earlier)}
