"""Shared by the tests of watch: a job's processes and sockets, and a watch of a command."""

from __future__ import annotations

import os
import socket
from typing import Any

import fullmesh_watch
import fullmesh_watch_judge as watch_judge

from fullmesh.contract import convert_value
from fullmesh.observed.watch import (
    EventKind,
    JobProblem,
    JobSnapshot,
    PartialParticipants,
    Participants,
    WatchedProcess,
    WatchEventFields,
)

PLAN: Participants = {
    "nodes": [
        {
            "name": "el1",
            "address": "10.78.0.11",
            "addresses": ["10.78.0.11"],
            "names": ["el1"],
            "first_rank": 0,
            "local_ranks": 2,
        },
        {
            "name": "ub1",
            "address": "10.78.0.12",
            "addresses": ["10.78.0.12"],
            "names": ["ub1"],
            "first_rank": 2,
            "local_ranks": 2,
        },
    ],
    "master": {"node": "el1", "address": "10.78.0.11", "port": 29500},
    "data_ports": {"first": 50000, "last": 54095},
    "networks": ["10.78.0.0/24"],
}


def make_process(pid: int, **more: Any) -> WatchedProcess:
    """Make a checked process of a job, without any settings except *more*."""
    defaults = {"rank": None, "world": 0, "groups": 0, "nnodes": 0, "master": "", "port": 0}
    settings: dict[str, Any] = {
        "agent": None,
        "coordinator": None,
        "static": False,
        "command": "",
        "told": {},
    }
    return convert_value(WatchedProcess, {"pid": pid, **defaults, **settings, **more})


JOB = """
import os, socket, sys, time
port = int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    server = socket.create_server(("127.0.0.1", port))
    print("listening", flush=True)
    held = server.accept()
else:
    while True:
        try:
            held = socket.create_connection(("127.0.0.1", port), 1)
            break
        except OSError:
            time.sleep(0.1)
time.sleep(float(os.environ.get("LASTS", "0")))
print("rank", os.environ["RANK"], "done", flush=True)
"""


def build_environment(**more: str) -> dict[str, str]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("MASTER", "RANK", "FULLMESH", "WORLD"))
    }
    return kept | more


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def make_problem(code: str, at: str, **more: Any) -> JobProblem:
    problem_base = watch_judge.build_problem(code, "10.78.0.11", 29500, "store", at)
    options = {"who": "rank 1 (ub1)", "node": "ub1", "sentence": "as it is"}
    return convert_value(JobProblem, {**problem_base, **options, **more})


class SimulatedWatch(fullmesh_watch.JobWatch):
    """A watch with a simulated clock and simulated probes."""

    to_unreached, to_missing = "dropped", "refused"

    def __init__(
        self, me: str = "el1", plan: PartialParticipants | None = None, *options: str
    ) -> None:
        args = fullmesh_watch.parse_arguments(
            ["--name", me, "--within", "60", "--json", *options, "--", "job"]
        )
        super().__init__(args, PLAN if plan is None else plan)
        self.clock = 0.0
        self.events: list[tuple[EventKind, WatchEventFields]] = []

    def age(self) -> float:
        return self.clock

    def event(self, kind: EventKind, more: WatchEventFields | None = None) -> None:
        self.events.append((kind, more or {}))

    def report(self, make_problem: JobProblem) -> None:
        self.tell(make_problem)

    def explain(self, make_problem: JobProblem) -> None:
        if make_problem["code"] == watch_judge.UNREACHED:
            watch_judge.explain_unreached(make_problem, self.plan, self.to_unreached, own=False)
        elif make_problem["code"] == watch_judge.MISSING:
            watch_judge.explain_missing(make_problem, self.to_missing, "public", self.me)

    def judge_at(self, clock: float, picture: JobSnapshot) -> list[str]:
        """Judge a snapshot at a time, and return the reported lines."""
        self.clock, self.events = clock, []
        self.judge_now(picture)
        return [more["problem"]["sentence"] if more else kind for kind, more in self.events]
