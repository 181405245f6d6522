"""Query the state of the ranks on every node of an inventory: one ssh per node, and no file stays on the node."""

from __future__ import annotations

import base64
import binascii
import re
import shlex
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO

from fullmesh import contract
from fullmesh.causes.hang.rdma import map_gid_addresses
from fullmesh.foreign_text import parse_foreign_json
from fullmesh.hang import recorder
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.hang import ClockReading, NodeHang, Rank
from fullmesh.printed import clean_and_shorten
from fullmesh.watch import remote

MODULES = (
    "fullmesh_foreign_text",
    "fullmesh_ports",
    "fullmesh_sockets",
    "fullmesh_watch_look",
    "fullmesh_hang_border",
    "fullmesh_hang_calls",
    "fullmesh_hang_wait",
    "fullmesh_hang_evidence",
    "fullmesh_hang_answer",
    "fullmesh_hang_ras",
    "fullmesh_hook",
    "fullmesh_nic_counters",
    "fullmesh_hang_rdma",
    "fullmesh_hang_look",
    "fullmesh_hang",
)
MARK = "\x1efullmesh-hang "
STAMP = re.compile(r"\x1efullmesh-clock (\d{1,19})")
AT_ONCE = 64
SECONDS = 20.0  # to reach a node and get one answer
MORE_SECONDS = (
    10.0  # for each further answer (the time that a node with other users' processes needs)
)
MOST_BYTES = 32 << 20  # of an answer, unpacked
MOST_OUTPUT = 64 << 20  # of all answers of a node
MOST_ERRORS = 1 << 20
MOST_LEFT_OUT = 64  # reasons of a node
BLOCK = 1 << 16
STAMP_SIZE, LEAST_STAMPS = 64, 2
# the kernel's name of a rank's process, which torch changes once it is imported
PYTHON = re.compile(r"python|pt_|ray::")


@dataclass(frozen=True)
class HangAnswer:
    """The samples of one node, or the reason why there are none."""

    name: str
    looks: tuple[NodeHang, ...] = ()
    why: str = ""
    size: int = 0


def build_hang_script(name: str, job: str, again: Sequence[float], python: str) -> str:
    """Return the shell command for a node. It uses root if allowed, because jobs belong to other accounts."""
    pauses = [word for one in again for word in ("--again", f"{one:g}")]
    words = [remote.bundle_programs(MODULES), "--packed", "--name", name, "--job", job, *pauses]
    call = shlex.join(["-I", "-c", remote.build_boot_code("fullmesh_hang"), *words])
    pythons = " ".join(map(shlex.quote, [python, *remote.PYTHONS] if python else remote.PYTHONS))
    return (
        'root=; [ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && root="sudo -n"; }; '
        f'for p in {pythons}; do command -v "$p" >/dev/null 2>&1 && exec $root "$p" {call}; done; '
        "echo 'no Python on this node: install python3' >&2; exit 127"
    )


def parse_hang_rank(value: object, name: str) -> Rank:
    """Return a rank of a node's answer, which runs on that node whatever it says.

    Raises:
        ValueError: a field has another form, or a number is out of bounds.
    """
    found = recorder.validate_rank(contract.convert_value(Rank, value))
    return {**found, "host": name}


def parse_node_hang(line: str, name: str) -> NodeHang:
    """Return one answer of a node. Only the rank that cannot be read is left out.

    Raises:
        ValueError: it is damaged, larger than any, or of another version.
    """
    try:
        packed = base64.b64decode(line.removeprefix(MARK).strip(), validate=True)
        engine = zlib.decompressobj()
        text = engine.decompress(packed, MOST_BYTES)
        if engine.unconsumed_tail:
            raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
        raw = parse_foreign_json(text, most_bytes=MOST_BYTES)
        ranks = raw.pop("ranks", None) if isinstance(raw, dict) else None
        if not isinstance(ranks, list):
            raise ValueError("it has no ranks")
        found = contract.convert_value(NodeHang, {**raw, "ranks": []})
    except (binascii.Error, zlib.error, ValueError) as exc:
        raise ValueError(f"its answer cannot be read: {exc}") from None
    left_out = found.get("left_out", [])
    for one in ranks:
        try:
            found["ranks"].append(parse_hang_rank(one, name))
        except ValueError as exc:
            why = f"its record cannot be read: {exc}"[: remote.LONGEST]
            left_out.append({"account": "", "pid": 0, "count": 1, "why": why})
    return {**found, "host": name, "left_out": left_out[:MOST_LEFT_OUT]}


@dataclass
class CommandOutput:
    """Output and exit status of a command.

    Attributes:
        why: the reason if it was killed.
        arrived: the number of bytes of ``out`` that had arrived, and when (time_ns).
    """

    out: bytearray
    errors: bytearray
    status: int = 0
    why: str = ""
    arrived: list[tuple[int, int]] = field(default_factory=list)

    def get_arrival(self, size: int) -> int:
        """Return when the first *size* bytes of the output were complete."""
        return next((at for end, at in self.arrived if end >= size), 0)


def run_bounded_command(command: Sequence[str], seconds: float) -> CommandOutput:
    """Run a command with limits on its time and on the size of its output.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(  # noqa: S603 (the inventory's own ssh, no shell here)
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    found = CommandOutput(bytearray(), bytearray())

    def hear(stream: IO[bytes], held: bytearray, most: int) -> None:
        while block := stream.read1(BLOCK):  # type: ignore[attr-defined]
            held += block
            if held is found.out:
                found.arrived.append((len(held), time.time_ns()))
            if len(held) > most:
                found.why = f"it printed more than {most >> 20} MiB"
                process.kill()
                return

    ways = ((process.stdout, found.out, MOST_OUTPUT), (process.stderr, found.errors, MOST_ERRORS))
    threads = [threading.Thread(target=hear, args=way, daemon=True) for way in ways]
    end = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    try:
        found.status = process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        found.why = f"the node did not answer within {seconds:.0f} s"
        process.kill()
        process.wait()
    return found


def read_stamps(printed: CommandOutput) -> list[tuple[int, int]]:
    """Return the times that a node printed, each with the time of its arrival here."""
    found, end = [], 0
    for line in bytes(printed.out).split(b"\n")[:-1]:
        end += len(line) + 1
        stamp = STAMP.fullmatch(line.decode("ascii", "replace")) if len(line) < STAMP_SIZE else None
        if stamp:
            found.append((int(stamp[1]), printed.get_arrival(end)))
    return found


def compare_clocks(stamps: Sequence[tuple[int, int]]) -> ClockReading | None:
    """Compare a node's clock with this machine's, or return None without two stamps.

    A message may arrive late, but never early, so the largest lead is the closest one. It lacks the time of the fastest
    message, which is about the same from all nodes of a cluster. If the second best stamp agrees, both were fast.

    Args:
        stamps: times of the node, each with the time of its arrival here.
    """
    leads = sorted((sent - arrived for sent, arrived in stamps), reverse=True)
    if len(leads) < LEAST_STAMPS:
        return None
    return {"ahead_ns": leads[0], "doubt_ns": leads[0] - leads[1]}


def set_clock(answer: NodeHang, clock: ClockReading | None) -> NodeHang:
    """Add a node's clock to its ranks."""
    for one in answer["ranks"]:
        one.pop("clock", None)  # a node cannot know it
        if clock:
            one["clock"] = clock
    return answer


def query_hang_node(
    name: str, reach: Mapping[str, str], job: str, again: Sequence[float]
) -> HangAnswer:
    """Ask one node."""
    command = remote.build_ssh_command(
        reach, name, build_hang_script(name, job, again, reach.get("python", ""))
    )
    seconds = SECONDS + sum(again) + MORE_SECONDS * len(again)
    try:
        printed = run_bounded_command(command, seconds)
    except OSError as exc:
        return HangAnswer(name, why=f"ssh cannot be started: {exc}")
    # not splitlines(), since the mark begins with a Unicode line end. The last piece is not a whole line
    pieces = printed.out.decode("utf-8", "replace").split("\n")[:-1]
    lines = [piece for piece in pieces if piece.startswith(MARK)][: 1 + len(again)]
    clock = compare_clocks(read_stamps(printed))
    try:
        looks = tuple(set_clock(parse_node_hang(line, name), clock) for line in lines)
    except ValueError as exc:
        return HangAnswer(name, why=clean_and_shorten(str(exc), remote.LONGEST))
    if looks:
        return HangAnswer(name, looks, size=sum(map(len, lines)))
    if printed.why:
        return HangAnswer(name, why=printed.why)
    errors = printed.errors.decode("utf-8", "replace").strip().splitlines()
    last = (errors or [f"exit {printed.status}"])[-1]
    return HangAnswer(name, why=f"ssh or its Python failed: {clean_and_shorten(last, 300)}")


def query_hang_node_safely(
    name: str, reach: Mapping[str, str], job: str, again: Sequence[float]
) -> HangAnswer:
    """Query one node. An invalid answer affects only this node."""
    try:
        return query_hang_node(name, reach, job, again)
    except Exception as exc:
        why = f"its answer cannot be read: {type(exc).__name__}: {exc}"
        return HangAnswer(name, why=clean_and_shorten(why, remote.LONGEST))


def query_hang_nodes(
    hosts: Mapping[str, Mapping[str, str]], job: str, again: Sequence[float]
) -> list[HangAnswer]:
    """Query all nodes at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(
            pool.map(lambda one: query_hang_node_safely(one[0], one[1], job, again), hosts.items())
        )


def make_absent_rank(number: int, world: int, host: str, why: str, *, gone: bool) -> Rank:
    """Make a rank without an answer."""
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


def make_ended_rank(number: int, world: int, answer: NodeHang, began_ns: int) -> Rank:
    """Describe how a rank ended, if its node answers but has no process of it.

    If a rank fails, torchrun ends itself and its other ranks within a second. So if torchrun is still running, the rank
    ended without an error.
    """
    found = make_absent_rank(
        number, world, answer["host"], "no process of this rank runs there", gone=True
    )
    killed = [
        line
        for line in answer.get("kernel", [])
        if line["kind"] == "oom" and line["at_ns"] >= began_ns and PYTHON.match(line["name"])
    ]
    starts = [
        one
        for one in answer.get("launchers", [])
        if one["first"] < 0 or one["first"] <= number < one["first"] + one["count"]
    ]
    if killed:
        found["exit_code"], found["kernel"] = -signal.SIGKILL, killed[-1:]
    elif starts:
        found["exit_code"] = 0
        found["missing"][0]["why"] = f"its torchrun (process {starts[0]['pid']}) is still running"
    return found


def collect_samples(plan: ClusterPlan, answers: Iterable[HangAnswer]) -> list[list[Rank]]:
    """List all ranks of a job for each sample: those that answered, and those that should have.

    If the job has the plan's size, its ranks are on the plan's nodes. Otherwise, only the ranks are known that a
    launcher on a node reports as started.
    """
    answered = list(answers)
    count = max((len(one.looks) for one in answered), default=0)
    found = []
    for number in range(count):
        looks = {one.name: one.looks[number] for one in answered if len(one.looks) > number}
        ranks: dict[int, Rank] = {}
        for rank in (rank for answer in looks.values() for rank in answer["ranks"]):
            known = ranks.setdefault(rank["rank"], rank)
            if len(rank["missing"]) < len(known["missing"]):
                ranks[rank["rank"]] = (
                    rank  # if two processes have one number, use the one that answers
                )
        name_rails(plan, ranks.values())
        if ranks:
            silent = {one.name: one.why for one in answered if one.why}
            found.append([*ranks.values(), *find_missing_ranks(plan, looks, silent, ranks)])
    return found


def name_rails(plan: ClusterPlan, ranks: Iterable[Rank]) -> None:
    """Add the plan's rails to the RDMA ports of the ranks, by the addresses of the ports."""
    names = {
        (node, address): rail["name"]
        for rail in plan.get("rails", [])
        for node, address in rail["members"].items()
    }
    for rank in ranks:
        for port in rank.get("rdma", []):
            port.pop("rail", None)  # a node cannot know it
            for state in (port["now"], port.get("start")):
                for address in map_gid_addresses(state) if state else ():
                    if (rank["host"], address) in names:
                        port["rail"] = names[rank["host"], address]


def find_missing_ranks(
    plan: ClusterPlan,
    looks: Mapping[str, NodeHang],
    silent: Mapping[str, str],
    ranks: Mapping[int, Rank],
) -> list[Rank]:
    """Return the ranks that should be on a node but were not found there."""
    world = max(one["world"] for one in ranks.values())
    began = min((e["created_ns"] for one in ranks.values() for e in one["entries"]), default=0)
    found: dict[int, Rank] = {}
    for number, name in [*list_planned_ranks(plan, world), *list_started_ranks(looks, world)]:
        if number in ranks or number in found:
            continue
        if name in looks:
            found[number] = make_ended_rank(number, world, looks[name], began)
        else:
            why = silent.get(name, "its node was not queried")
            found[number] = make_absent_rank(number, world, name, why, gone=False)
    return list(found.values())


def list_planned_ranks(plan: ClusterPlan, world: int) -> Iterator[tuple[int, str]]:
    """Yield rank and node from the plan, if the job has the plan's size."""
    if world == plan["world_size"]:
        for name, node in plan["nodes"].items():
            first = node["first_rank"]
            yield from ((number, name) for number in range(first, first + node["local_ranks"]))


def list_started_ranks(looks: Mapping[str, NodeHang], world: int) -> Iterator[tuple[int, str]]:
    """Yield rank and node from the launchers' own reports."""
    for name, answer in looks.items():
        for one in answer.get("launchers", []):
            last = min(one["first"] + one["count"], world, recorder.MOST_RANKS)
            numbers = range(one["first"], last) if one["first"] >= 0 else range(0)
            yield from ((number, name) for number in numbers)
