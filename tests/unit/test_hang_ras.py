"""NCCL's RAS: the query, the queried server, and the parts of its answer about ranks on this node.

The server is a FAKE with the output of NCCL's user guide (Troubleshooting, RAS, JSON output; NCCL
2.29).
"""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import fullmesh_hang_answer as hang_answer
import fullmesh_hang_look as hang_look
import fullmesh_hang_ras as hang_ras
import hang_records
import pytest

from fullmesh.hang.judge import judge_job

OK = {"init_state": 0, "async_error": 0, "finalize_called": False}
COUNTS = {"Broadcast": 0, "Reduce": 0, "AllGather": 3, "ReduceScatter": 0, "AllReduce": 41}
ELSEWHERE = "192.0.2.7"


def rank(number: int, host: str, pid: int, **status: Any) -> dict[str, Any]:
    return {
        "rank": number,
        "host": host,
        "pid": pid,
        "cuda_dev": number,
        "nvml_dev": number,
        "status": {**OK, **status},
        "collective_counts": dict(COUNTS),
    }


def make_missing_rank(number: int, host: str, pid: int, dead: bool = False) -> dict[str, Any]:
    one = rank(number, host, pid)
    del one["collective_counts"]
    return {**one, "status": {"unresponsive": True, "considered_dead": dead}}


def status(ranks: list[dict[str, Any]], lost: list[dict[str, Any]]) -> dict[str, Any]:
    communicator = {
        "hash": "0xae94423cfbb2ef4a",
        "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": len(ranks) + len(lost),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(lost),
        "ranks": ranks,
        "missing_ranks": lost,
    }
    return {
        "nccl_version": "2.29.1",
        "communicators_count": 1,
        "communicators": [communicator],
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
    }


class Server:
    """A FAKE of RAS: it acknowledges settings, sends its text and closes."""

    def __init__(self, text: str) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.asked = b""
        self.text = text
        self.ends = threading.Event()
        self.ends.set()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:  # no client connected
            return
        with sock:
            while b"STATUS\n" not in self.asked:
                self.asked += sock.recv(4096)
            sock.sendall(b"OK\nOK\n" + self.text.encode())
            self.ends.wait()

    @property
    def env(self) -> dict[str, str]:
        return {"NCCL_RAS_ADDR": f"127.0.0.1:{self.port}"}


@pytest.fixture
def server() -> Iterator[Server]:
    late = rank(1, "127.0.0.1", 4712)
    late["collective_counts"]["AllReduce"] = 40
    said = status(
        [rank(0, "127.0.0.1", 4711), late, rank(2, ELSEWHERE, 4711)],
        [make_missing_rank(3, "127.0.0.1", 4713), make_missing_rank(4, ELSEWHERE, 4712, dead=True)],
    )
    made = Server(json.dumps(said, indent=2))
    yield made
    made.listener.close()


def test_only_faults_of_ranks_on_this_node_are_reported(server: Server) -> None:
    said, why = hang_ras.read_ras_status(server.env, os.getpid(), os.geteuid())
    assert why == ""
    assert said == {
        4712: {
            "answers": True,
            "dead": False,
            "behind": [{"kind": "AllReduce", "count": 40, "most": 41}],
        },
        4713: {"answers": False, "dead": False, "behind": []},
    }
    # no command that changes a job
    assert server.asked == hang_ras.QUESTION
    assert {line.split()[0] for line in hang_ras.QUESTION.splitlines()} == {
        b"SET",
        b"TIMEOUT",
        b"STATUS",
    }


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, ("localhost", 28028)),
        ({"NCCL_RAS_ADDR": "[::1]:4000"}, ("::1", 4000)),
        ({"NCCL_RAS_ADDR": "10.78.0.11:28028"}, ("", 0)),
        ({"NCCL_RAS_ADDR": "localhost:ras"}, ("localhost", 0)),
        ({"NCCL_RAS_ENABLE": "0"}, ("", 0)),
    ],
)
def test_ras_is_queried_on_this_machine_only(env: dict[str, str], wanted: tuple[str, int]) -> None:
    assert hang_ras.find_ras_endpoint(env) == wanted
    if not wanted[1]:
        assert hang_ras.read_ras_status(env, os.getpid(), os.geteuid()) == ({}, "")


def test_the_comma_that_nccl_2_28_leaves_out_is_added() -> None:
    raw = (
        hang_records.RECORDED / "ras_stopped.txt"
    ).read_text()  # from 2.28.9, with a stopped rank
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(raw[raw.index("{") :])
    (communicator,) = hang_ras.parse_status(raw.encode())["communicators"]
    (lost,) = communicator["missing_ranks"]
    assert lost["rank"] == 1
    assert lost["status"] == {"unresponsive": True, "considered_dead": False}


def test_a_silent_ras_has_a_reason() -> None:
    old = Server("Job summary\n===========\n\n  Nodes  Processes\n")
    assert "NCCL before 2.28.7" in hang_ras.read_ras_status(old.env, os.getpid(), os.geteuid())[1]
    old.listener.close()
    assert "does not answer" in hang_ras.read_ras_status(old.env, os.getpid(), os.geteuid())[1]
    other = Server('{"communicators": [{"ranks": [{"rank": 0}]}]}')
    assert (
        "does not support JSON" in hang_ras.read_ras_status(other.env, os.getpid(), os.geteuid())[1]
    )
    other.listener.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{" + '"communicators": ' + "[" * 100_000, "nested"),
        ('{"communicators": [{"ranks": [{"collective_counts": 7}]}]}', "does not support JSON"),
        ('{"communicators": 7}', "does not support JSON"),
    ],
)
def test_an_invalid_answer_counts_as_no_answer(text: str, why: str) -> None:
    said, reason = hang_ras.read_ras_status(Server(text).env, os.getpid(), os.geteuid())
    assert said == {}
    assert why in reason


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_ras, "SECONDS", 0.3)
    slow = Server("")
    monkeypatch.setattr(slow, "text", "x")
    slow.ends.clear()
    assert "did not end in time" in hang_ras.read_ras_status(slow.env, os.getpid(), os.geteuid())[1]
    slow.ends.set()


def test_the_listener_of_another_account_is_not_queried(server: Server) -> None:
    strangers = {65534}
    with pytest.raises(OSError, match="another account listens there"):
        hang_ras.choose_loopback("127.0.0.1", server.port, strangers)
    with pytest.raises(OSError, match="another account listens there"):
        hang_ras.choose_loopback("localhost", server.port, strangers)
    assert hang_ras.choose_loopback("localhost", server.port, {os.geteuid()}) == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        hang_ras.choose_loopback("::1", server.port, {os.geteuid()})


def test_the_answer_that_a_rank_got_is_kept() -> None:
    rank_env = {"NCCL_RAS_ADDR": "127.0.0.1:4000", "NCCL_RAS_ENABLE": "0", "HOME": "/root"}
    sleep = [sys.executable, "-c", "print(flush=True); import sys; sys.stdin.read()"]
    with subprocess.Popen(sleep, env=rank_env, stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        env = hang_look.read_rank_environment(process.pid)
        process.kill()
    assert env == {"NCCL_RAS_ADDR": "127.0.0.1:4000", "NCCL_RAS_ENABLE": "0"}
    assert hang_ras.find_ras_endpoint(env) == ("", 0)


def test_a_name_in_an_answer_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("it was looked up"))
    assert not hang_ras.is_local_address("localhost")
    assert not hang_ras.is_local_address("attacker.example")


def test_gloo_ranks_query_no_ras(server: Server) -> None:
    ranks = [copy.deepcopy(one) for one in hang_records.load_raw("network")[0]]
    hang_look.add_ras_status(ranks, {one["pid"]: server.env for one in ranks})
    assert server.asked == b""
    assert not any("ras" in one for one in ranks)


def test_the_ras_answer_is_shown_with_a_finding(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the RAS answer to the sentence, on a record whose ranks used NCCL."""
    monkeypatch.setattr(hang_answer, "read_inner_pid", lambda pid: pid)
    numbers = {0: 4713, 1: 4712}

    def with_nccl(samples: Any) -> None:
        for sample in samples:
            for one in sample:
                one["pid"] = numbers[one["rank"]]
                one["entries"][-1]["kind"] = "nccl:all_reduce"
        hang_look.add_ras_status(samples[-1], {one["pid"]: server.env for one in samples[-1]})

    (finding,) = judge_job(hang_records.change_samples("network", with_nccl))
    assert "NCCL's RAS gets no answer from rank 0" in finding.seen
    assert "rank 1 has launched AllReduce 40 times, others 41 times" in finding.seen


def test_an_address_of_this_machine_is_known() -> None:
    assert hang_ras.is_local_address("127.0.0.1")
    assert not hang_ras.is_local_address(ELSEWHERE)
    assert hang_answer.read_inner_pid(os.getpid()) == os.getpid()
