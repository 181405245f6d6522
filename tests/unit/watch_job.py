"""What the tests of watch share: a job's processes and sockets, and a watch around a command."""

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


def process(pid: int, **more: Any) -> WatchedProcess:
    """A process of a job that was told nothing, but for *more*; checked, so that no test makes one that cannot be."""
    plain = {"rank": None, "world": 0, "groups": 0, "nnodes": 0, "master": "", "port": 0}
    told = {"agent": None, "coordinator": None, "static": False, "command": "", "told": {}}
    return convert_value(WatchedProcess, {"pid": pid, **plain, **told, **more})


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


def env(**more: str) -> dict[str, str]:
    keep = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("MASTER", "RANK", "FULLMESH", "WORLD"))
    }
    return keep | more


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def problem(code: str, at: str, **more: Any) -> JobProblem:
    made = watch_judge.build_problem(code, "10.78.0.11", 29500, "store", at)
    words = {"who": "rank 1 (ub1)", "node": "ub1", "sentence": "as it is"}
    return convert_value(JobProblem, {**made, **words, **more})


class Watched(fullmesh_watch.JobWatch):
    """A watch whose clock and probes are the test's."""

    to_unreached, to_missing = "dropped", "refused"

    def __init__(
        self, me: str = "el1", plan: PartialParticipants | None = None, *words: str
    ) -> None:
        args = fullmesh_watch.parse_arguments(
            ["--name", me, "--within", "60", "--json", *words, "--", "job"]
        )
        super().__init__(args, PLAN if plan is None else plan)
        self.clock = 0.0
        self.events: list[tuple[EventKind, WatchEventFields]] = []

    def age(self) -> float:
        return self.clock

    def event(self, kind: EventKind, more: WatchEventFields | None = None) -> None:
        self.events.append((kind, more or {}))

    def report(self, problem: JobProblem) -> None:
        self.tell(problem)

    def explain(self, problem: JobProblem) -> None:
        if problem["code"] == watch_judge.UNREACHED:
            watch_judge.explain_unreached(problem, self.plan, self.to_unreached, own=False)
        elif problem["code"] == watch_judge.MISSING:
            watch_judge.explain_missing(problem, self.to_missing, "public", self.me)

    def at(self, clock: float, picture: JobSnapshot) -> list[str]:
        """Look at a picture at some time; what is said then."""
        self.clock, self.events = clock, []
        self.judge_now(picture)
        return [more["problem"]["sentence"] if more else kind for kind, more in self.events]
