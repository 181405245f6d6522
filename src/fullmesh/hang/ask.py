"""Asks every node of an inventory where its ranks stand: one ssh a node, our program at its other end, nothing kept."""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
import signal
import subprocess
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fullmesh import contract
from fullmesh.explain.model import clean
from fullmesh.hang import recorder
from fullmesh.hang.plain_pickle import RefusedError
from fullmesh.model.types import Plan
from fullmesh.observed.hang import NodeHang, Rank
from fullmesh.watch import remote

MODULES = (
    "fullmesh_foreign_text",
    "fullmesh_ports",
    "fullmesh_sockets",
    "fullmesh_watch_look",
    "fullmesh_hang_evidence",
    "fullmesh_hang_ras",
    "fullmesh_hang_look",
    "fullmesh_hang",
)
MARK = "\x1efullmesh-hang "
AT_ONCE = 64
SECONDS = 20.0  # for a node to be reached and to answer once
MOST_BYTES = 64 << 20  # of an answer, unpacked
NO_RANK = 1  # exit code of the program on a node
# the kernel's name of a rank's process, which torch changes once it is imported
PYTHON = re.compile(r"python|pt_|ray::")


@dataclass(frozen=True)
class Answer:
    """What came from one node: as many looks as were asked for, or why not."""

    name: str
    looks: tuple[NodeHang, ...] = ()
    why: str = ""
    size: int = 0


def script(name: str, job: str, again: Sequence[float], python: str) -> str:
    """What the shell on a node runs: as root where it may, since jobs belong to other accounts."""
    pauses = [word for one in again for word in ("--again", f"{one:g}")]
    words = [remote.bundle(MODULES), "--packed", "--name", name, "--job", job, *pauses]
    call = shlex.join(["-I", "-c", remote.boot("fullmesh_hang"), *words])
    pythons = " ".join(map(shlex.quote, [python, *remote.PYTHONS] if python else remote.PYTHONS))
    return (
        'root=; [ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && root="sudo -n"; }; '
        f'for p in {pythons}; do command -v "$p" >/dev/null 2>&1 && exec $root "$p" {call}; done; '
        "echo 'no Python on this node: install python3' >&2; exit 127"
    )


def unpacked(line: str) -> NodeHang:
    """One look of a node.

    Raises:
        ValueError: it is damaged, larger than any, or of another version.
    """
    try:
        packed = base64.b64decode(line.removeprefix(MARK).strip(), validate=True)
        engine = zlib.decompressobj()
        text = engine.decompress(packed, MOST_BYTES)
        if engine.unconsumed_tail:
            raise ValueError(f"its answer has more than {MOST_BYTES >> 20} MiB")
        found = contract.read(NodeHang, json.loads(text))
        for rank in found["ranks"]:
            recorder.checked(rank)
    except (binascii.Error, zlib.error, contract.ContractError, RefusedError) as exc:
        raise ValueError(f"its answer cannot be read: {exc}") from None
    return found


def node(name: str, reach: Mapping[str, str], job: str, again: Sequence[float]) -> Answer:
    """Ask one node."""
    command = remote.ssh(reach, name, script(name, job, again, reach.get("python", "")))
    try:
        done = subprocess.run(  # noqa: S603 (the inventory's own ssh, no shell here)
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS + sum(again),
        )
    except subprocess.TimeoutExpired:
        return Answer(name, why=f"the node did not answer within {SECONDS:.0f} s")
    # not splitlines(): the mark begins with one of Unicode's line ends
    lines = [line for line in done.stdout.split("\n") if line.startswith(MARK)]
    try:
        looks = tuple(unpacked(line) for line in lines)
    except ValueError as exc:
        return Answer(name, why=clean(str(exc), remote.LONGEST))
    if not looks:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return Answer(name, why=f"ssh or its Python failed: {clean(last, 300)}")
    return Answer(name, looks, size=sum(map(len, lines)))


def nodes(hosts: Mapping[str, Mapping[str, str]], job: str, again: Sequence[float]) -> list[Answer]:
    """Ask all nodes, side by side."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda one: node(one[0], one[1], job, again), hosts.items()))


def absent(number: int, world: int, host: str, why: str, *, gone: bool) -> Rank:
    """A rank of which nothing came."""
    return {
        "rank": number,
        "world": world,
        "host": host,
        "pid": 0,
        "taken_ns": time.time_ns(),
        "process": "gone" if gone else "unasked",
        "exit_code": None,
        "groups": [],
        "entries": [],
        "threads": [],
        "native": {**recorder.NO_NATIVE},
        "raised": None,
        "missing": [{"what": "process", "why": why}],
    }


def ended(number: int, world: int, look: NodeHang, began_ns: int) -> Rank:
    """A rank whose node answers and has no process of it: how it ended, as far as that node tells.

    torchrun ends itself and its other ranks within a second when one of them fails: where it still runs, the rank has
    come to its end well.
    """
    found = absent(number, world, look["host"], "no process of this rank runs there", gone=True)
    killed = [
        line
        for line in look.get("kernel", [])
        if line["kind"] == "oom" and line["at_ns"] >= began_ns and PYTHON.match(line["name"])
    ]
    starts = [
        one
        for one in look.get("launchers", [])
        if one["first"] < 0 or one["first"] <= number < one["first"] + one["count"]
    ]
    if killed:
        found["exit_code"], found["kernel"] = -signal.SIGKILL, killed[-1:]
    elif starts:
        found["exit_code"] = 0
        found["missing"][0]["why"] = f"its torchrun (process {starts[0]['pid']}) still runs"
    return found


def samples(plan: Plan, answers: Iterable[Answer]) -> list[list[Rank]]:
    """All ranks of a job, look for look: those that answered, and those that should have.

    Where the job has the plan's size, its ranks are on the plan's nodes. Of another job those are known that a launcher
    on a node says it has started.
    """
    told = list(answers)
    count = max((len(one.looks) for one in told), default=0)
    found = []
    for number in range(count):
        looks = {one.name: one.looks[number] for one in told if len(one.looks) > number}
        ranks = {rank["rank"]: rank for look in looks.values() for rank in look["ranks"]}
        if ranks:
            silent = {one.name: one.why for one in told if one.why}
            found.append([*ranks.values(), *rest(plan, looks, silent, ranks)])
    return found


def rest(
    plan: Plan,
    looks: Mapping[str, NodeHang],
    silent: Mapping[str, str],
    ranks: Mapping[int, Rank],
) -> list[Rank]:
    """The ranks that should be on a node and were not found there."""
    world = max(one["world"] for one in ranks.values())
    began = min((e["created_ns"] for one in ranks.values() for e in one["entries"]), default=0)
    found: dict[int, Rank] = {}
    for number, name in [*planned(plan, world), *started(looks, world)]:
        if number in ranks or number in found:
            continue
        if name in looks:
            found[number] = ended(number, world, looks[name], began)
        else:
            why = silent.get(name, "its node was not asked")
            found[number] = absent(number, world, name, why, gone=False)
    return list(found.values())


def planned(plan: Plan, world: int) -> Iterator[tuple[int, str]]:
    """Where the plan has the ranks of a job of its size."""
    if world == plan["world_size"]:
        for name, node in plan["nodes"].items():
            first = node["first_rank"]
            yield from ((number, name) for number in range(first, first + node["local_ranks"]))


def started(looks: Mapping[str, NodeHang], world: int) -> Iterator[tuple[int, str]]:
    """Where launchers say that they have started ranks."""
    for name, look in looks.items():
        for one in look.get("launchers", []):
            numbers = range(one["first"], one["first"] + one["count"]) if one["first"] >= 0 else []
            yield from ((number, name) for number in numbers if number < world)
