"""The watch and the plan's services, from recorded states of real jobs on lab nodes (recorded/watch).

``nodes.json`` and ``services.json`` are those of the node el1, written by the role launchers. The
jobs are: JAX's psum with its coordinator's port dropped on el1 (``jax-shut-host``: el1's state,
``jax-shut``: ubuntu1's) and with another listener on that port (``jax-taken-host``), fullmesh-ray
start against a dropped control store (``ray-shut``), and a server on 127.0.0.1 at the port of a
custom service (``api-loopback``).
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fullmesh_watch as watch
import fullmesh_watch_judge as watch_judge
import fullmesh_watch_look as watch_look
import fullmesh_watch_services as watch_services
import pytest
import watch_job
from record_files import load_record, read_record

from fullmesh.contract import convert_value
from fullmesh.model.plan import derive_plan
from fullmesh.observed.watch import JobProblem, JobSnapshot, PartialParticipants
from fullmesh.printed import CONTROL
from fullmesh.settings import ROOT
from fullmesh.watch import remote as watch_remote

RECORDS = ROOT / "tests/unit/recorded/watch"


def load_snapshot(name: str) -> JobSnapshot:
    """Load a recorded state, and check it against its type."""
    return convert_value(JobSnapshot, load_record(RECORDS / f"{name}.json"))


def load_recorded_plan() -> PartialParticipants:
    """Return the plan as a node reads it."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("nodes.json", "services.json"):
            (Path(folder) / name).write_text(read_record(RECORDS / name))
        return watch.load_plan(f"{folder}/nodes.json")


class ServiceWatch(watch_job.SimulatedWatch):
    """A watch of these nodes."""

    def __init__(self, me: str, verdict: str = "dropped", *arguments: str) -> None:
        super().__init__(me, load_recorded_plan(), *arguments)
        self.to_unreached = self.to_missing = verdict

    def explain(self, make_problem: JobProblem) -> None:
        super().explain(make_problem)
        if make_problem["code"] == watch_judge.TAKEN:
            watch_services.explain_taken_port(make_problem, "process 1742 (python3 old.py)")

    def judge_at(self, clock: float, load_snapshot: JobSnapshot) -> list[str]:
        """Return the explanation of a state, after a check that it has no control character."""
        expected = super().judge_at(clock, load_snapshot)
        assert not any(CONTROL.search(one) for one in expected)
        return expected


@pytest.mark.parametrize(
    ("me", "name", "verdict", "expected"),
    [
        (
            "el1",
            "jax-shut-host",
            "dropped",
            "[WA-101] ubuntu1 (10.78.2.12) has not reached 10.78.2.11:8482 (jax coordinator) here: zone public on el1"
            " does not open 8482/tcp. ./fullmesh apply",
        ),
        (
            "ubuntu1",
            "jax-shut",
            "dropped",
            "[WA-102] process 1 of JAX (ubuntu1, this node) has not reached 10.78.2.11:8482 (el1, jax coordinator):"
            " dropped: no answer at all, so a firewall there or between drops the packets.",
        ),
        (
            "ubuntu1",
            "jax-shut",
            "refused",
            "[WA-102] process 1 of JAX (ubuntu1, this node) has not reached 10.78.2.11:8482 (el1, jax coordinator):"
            " refused: nothing listens there",
        ),
        (
            "ubuntu1",
            "ray-shut",
            "",
            "[WA-180] a process (ubuntu1, this node) gets no answer from 10.78.2.11:6379 (el1, ray gcs): dropped: no"
            " answer at all, so a firewall there or between drops the packets. On el1: firewall-cmd",
        ),
        (
            "el1",
            "api-loopback",
            "",
            "[WA-182] the job (el1, this node) listens on 127.0.0.1:8000 (inference 8000/tcp) alone: other nodes"
            " cannot reach that address, but the plan opens this port to them. Let it listen on 10.78.2.11,",
        ),
    ],
)
def test_unreachable_service_is_reported_once(
    me: str, name: str, verdict: str, expected: str
) -> None:
    job, seen = ServiceWatch(me, verdict), load_snapshot(name)
    assert [job.judge_at(clock, seen) for clock in (0, 30, 59)] == [[], [], []]
    [sentence] = job.judge_at(60, seen)
    assert sentence.startswith(expected)
    assert job.judge_at(600, seen) == []


def test_owner_of_the_coordinators_port_is_reported() -> None:
    job, seen = ServiceWatch("el1"), load_snapshot("jax-taken-host")
    job.judge_at(0, seen)
    taken, missing = job.judge_at(60, seen) if job.judge_at(59, seen) == [] else ["", ""]
    assert {taken[:8], missing[:8]} == {"[WA-181]", "[WA-101]"}
    [sentence] = [one for one in (taken, missing) if "WA-181" in one]
    assert sentence.startswith(
        "[WA-181] process 1742 (python3 old.py) listens on 10.78.2.11:8482 (jax coordinator) here: it does not belong"
        " to this job,"
    )
    # on the other node the same address belongs to another program
    other = ServiceWatch("ubuntu1")
    other.judge_at(0, seen)
    assert not any("WA-181" in one for one in other.judge_at(60, seen))


def test_client_between_attempts_is_unanswered() -> None:
    job, tries = ServiceWatch("ubuntu1"), load_snapshot("ray-shut")
    pauses: JobSnapshot = {**tries, "sockets": []}
    snapshots = [(clock, tries if clock % 4 < 3 else pauses) for clock in range(60)]
    assert [expected for clock, seen in snapshots for expected in job.judge_at(clock, seen)] == []
    [sentence] = job.judge_at(60, tries)
    assert sentence.startswith("[WA-180]")
    assert job.judge_at(65, pauses) == []
    # then it connects, or has given up
    connected = [{**row, "state": 1} for row in tries["sockets"]]
    assert job.judge_at(66, {**tries, "sockets": connected}) == ["together"]


def test_client_that_gave_up_is_not_reported() -> None:
    job, tries = ServiceWatch("ubuntu1"), load_snapshot("ray-shut")
    job.judge_at(0, tries)
    gone: JobSnapshot = {**tries, "sockets": []}
    assert [job.judge_at(clock, gone) for clock in (20, 40, 80, 600)] == [[], [], [], []]


def test_a_connected_job_gives_no_message() -> None:
    host, client = load_snapshot("jax-shut-host"), load_snapshot("jax-shut")
    [mine] = [row for row in client["sockets"] if row["peer_port"] == 8482]
    [listens] = [row for row in host["sockets"] if row["port"] == 8482 and row["state"] == 10]
    from_client = {**listens, "state": 1, "peer": "10.78.2.12", "peer_port": mine["port"]}
    own = {**listens, "state": 1, "address": "10.78.2.11", "port": 50000}
    here = {**own, "peer": "10.78.2.11", "peer_port": 8482}
    for me, seen in (
        ("el1", {**host, "sockets": [listens, from_client, here]}),
        ("ubuntu1", {**client, "sockets": [{**mine, "state": 1}]}),
    ):
        job = ServiceWatch(me)
        assert [
            job.judge_at(clock, convert_value(JobSnapshot, seen)) for clock in (0, 60, 600)
        ] == [
            [],
            [],
            [],
        ]


def test_loopback_is_reported_without_ending_the_job() -> None:
    job, seen = ServiceWatch("el1", "", "--kill-after", "10"), load_snapshot("api-loopback")
    job.judge_at(0, seen)
    assert job.judge_at(60, seen)
    job.judge_at(600, seen)
    assert not job.overdue()
    other, blocked = ServiceWatch("ubuntu1", "", "--kill-after", "10"), load_snapshot("ray-shut")
    other.judge_at(0, blocked)
    other.judge_at(60, blocked)
    other.judge_at(70, blocked)
    assert other.overdue()


def test_a_port_with_another_address_is_not_local_only() -> None:
    seen = load_snapshot("api-loopback")
    [row] = [one for one in seen["sockets"] if one["port"] == 8000]
    wide = {**row, "address": "10.78.2.11"}
    assert (
        watch_services.find_loopback_listeners(
            load_recorded_plan(), {**seen, "sockets": [row, wide]}, "el1"
        )
        == {}
    )
    assert (
        watch_services.find_loopback_listeners(load_recorded_plan(), seen, "ubuntu1") == {}
    )  # the service runs on el1


def test_services_of_the_plan_are_optional(tmp_path: Path) -> None:
    assert watch_judge.find_service_at(load_recorded_plan(), "el1", 10500) == "ray workers"
    assert watch_judge.find_service_at(load_recorded_plan(), "ubuntu1", 6379) == ""
    assert (
        watch_judge.find_service_at(load_recorded_plan(), "el1", 9005) == ""
    )  # udp has no connection to watch
    (tmp_path / "nodes.json").write_text(read_record(RECORDS / "nodes.json"))
    without_services = watch.load_plan(str(tmp_path / "nodes.json"))
    assert "services" not in without_services
    assert watch_judge.find_service_at(without_services, "el1", 6379) == ""


def test_controller_passes_on_the_plans_services() -> None:
    hosts: dict[str, dict[str, Any]] = {
        name: {"fullmesh_address": f"10.78.2.{at}/24", "fullmesh_services": ["jax"]}
        for at, name in ((11, "el1"), (12, "ubuntu1"))
    }
    text = watch_remote.build_watch_script(derive_plan(hosts), "el1", "", [], ["job"])
    arguments = shlex.split(text)
    given_plan = json.loads(arguments[arguments.index("--plan") + 1])
    assert watch_judge.find_service_at(given_plan, "el1", 8482) == "jax coordinator"


def test_node_finds_its_name_without_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FULLMESH_ADDRESS", raising=False)
    here: Any = {
        "nodes": [{"name": "far", "address": "192.0.2.1"}, {"name": "near", "address": "127.0.0.9"}]
    }
    assert watch.find_own_name(here, "") == "near"
    assert watch.find_own_name({}, "") == socket.gethostname()
    assert watch.find_own_name(here, "given") == "given"


def test_owner_of_a_real_socket_is_found() -> None:
    code = (
        "import socket, time\ns = socket.create_server(('127.0.0.1', 0))\n"
        "print(s.getsockname()[1], flush=True)\ntime.sleep(60)"
    )
    with (
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other,
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as job,
    ):
        assert other.stdout is not None
        port = int(other.stdout.readline())
        deadline = time.monotonic() + 20
        found: list[Any] = []
        while not found and time.monotonic() < deadline:
            found = [
                row for row in watch_look.observe_job(job.pid)["others"] if row["port"] == port
            ]
        assert watch_look.find_socket_holder(found[0]["inode"]).startswith(f"process {other.pid} (")
        assert not CONTROL.search(watch_look.find_socket_holder(found[0]["inode"]))
        other.kill()
        job.kill()
    assert watch_look.find_socket_holder(found[0]["inode"]) == ""
