"""Test RDMA transfers: the layouts of libibverbs, and both ends with a simulated device.

tests/rdma runs the same with soft-RoCE, a real library and a real kernel.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import errno
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import records
from ansible.module_utils.fullmesh.probe import listeners, rdma, rdma_rates, verbs
from ansible.module_utils.fullmesh.probe.listeners import ListenerServer
from ansible.module_utils.fullmesh.probe.verbs import VerbsError
from ansible.module_utils.fullmesh.survey import job
from causes.rdma import make_gid, make_port, make_try, set_results
from records import EL1 as EL
from records import UBUNTU1 as UB

from fullmesh.settings import ROOT
from fullmesh.verify import gpu, rdma_pairs, rdma_tries

TOKEN = "0f" * 16
GID = "0000:0000:0000:0000:0000:ffff:0a51:000b"
# offsetof() and sizeof() of rdma-core 44's infiniband/verbs.h, as gcc gives them on x86_64
LAYOUT = {
    verbs.ContextOps: {"": 256, "poll_cq": 88, "post_send": 200, "post_recv": 208},
    verbs.Context: {"ops": 8, "cmd_fd": 264},
    verbs.MemoryRegion: {"lkey": 36},
    verbs.QueuePair: {"qp_num": 52},
    verbs.QueuePairRequest: {"": 64, "send_cq": 8, "cap": 32, "qp_type": 52, "sq_sig_all": 56},
    verbs.GlobalRoute: {"": 24, "sgid_index": 20},
    verbs.PeerAddress: {"": 32, "dlid": 24, "is_global": 29, "port_num": 30},
    verbs.QueuePairAttributes: {
        "": 144,
        "path_mtu": 8,
        "rq_psn": 20,
        "sq_psn": 24,
        "dest_qp_num": 28,
        "qp_access_flags": 32,
        "ah_attr": 56,
        "pkey_index": 120,
        "max_rd_atomic": 126,
        "max_dest_rd_atomic": 127,
        "min_rnr_timer": 128,
        "port_num": 129,
        "timeout": 130,
        "retry_cnt": 131,
        "rnr_retry": 132,
    },
    verbs.Piece: {"": 16},
    verbs.SendRequest: {"": 128, "sg_list": 16, "num_sge": 24, "opcode": 28, "send_flags": 32},
    verbs.ReceiveRequest: {"": 32, "num_sge": 24},
    verbs.Completion: {"": 48, "status": 8, "vendor_err": 16, "byte_len": 20},
    verbs.PortAttributes: {"active_mtu": 8, "lid": 34},
}


@pytest.mark.parametrize("kind", LAYOUT, ids=lambda kind: kind.__name__)
def test_layouts_match_verbs_h(kind: Any) -> None:
    found = {
        name: getattr(kind, name).offset if name else ctypes.sizeof(kind) for name in LAYOUT[kind]
    }
    assert found == LAYOUT[kind]


def test_gid_is_converted_to_bytes() -> None:
    halves = (ctypes.c_uint64 * 2)(*verbs.gid_to_words(GID))
    assert bytes(halves).hex() == GID.replace(":", "")


def test_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "LIBRARY", "libibverbs-missing.so.1")
    with pytest.raises(VerbsError) as error:
        verbs.Connection("rxe1", 1, 64)
    assert error.value.args == ("library", 2)


class SimulatedDevice:
    """Simulate a device that sends each message over its own connection. *fault*: the step that fails."""

    fault = ""

    def __init__(self, device: str, port: int, size: int) -> None:
        """Read the fault from the device's name: ``crash@3``."""
        self.fault, _, number = device.partition("@")
        self.at = int(number or 0)
        if self.fault in list_setup_steps():
            raise VerbsError(self.fault, self.at)
        self.attributes = SimpleNamespace(lid=0, active_mtu=5)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.number = self.listener.getsockname()[1]
        self.is_over = lambda: False
        self.sent = 0
        self.peer = 0

    def connect(self, index: int, psn: int, peer: verbs.PeerQueue) -> None:
        """Remember the peer."""
        if self.fault == "rtr":
            raise VerbsError("rtr", self.at)
        self.peer = peer.number

    def expect_message(self, size: int) -> None:
        """Nothing to do."""

    def send_message(self, data: bytes, deadline: float) -> None:
        """Send, or break."""
        self.sent += 1
        if self.sent == self.at + 1:
            if self.fault == "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "stuck":  # as in a call that the kernel does not interrupt
                signal.signal(signal.SIGALRM, signal.SIG_IGN)
            if self.fault in ("hang", "stuck"):
                time.sleep(60)
            if self.fault == "lost":
                raise VerbsError("send", verbs.RETRIES_EXCEEDED)
            if self.fault == "wrong":
                data = data[:-1] + bytes([data[-1] ^ 1])
        with socket.create_connection(("127.0.0.1", self.peer)) as wire:
            wire.sendall(data)

    def expect_stream(self, size: int) -> None:
        """Nothing to do."""

    def send_stream(self, size: int, seconds: float, deadline: float) -> float:
        """Send one message for a rate."""
        self.send_message(b"x" * size, deadline)
        return 1.25e9

    def receive_stream(self, size: int, deadline: float) -> int:
        """Receive until the client ends the stream."""
        count = 0
        with contextlib.suppress(VerbsError):
            while self.receive_message(deadline):
                count += 1
        return count

    def receive_message(self, deadline: float) -> bytes:
        """Wait for a message as the library does."""
        if self.fault == "hang-late":
            time.sleep(60)
        self.listener.settimeout(0.02)
        while True:
            try:
                wire, _ = self.listener.accept()
            except socket.timeout:
                if time.monotonic() > deadline or self.is_over():
                    raise VerbsError("receive") from None
                continue
            with wire, wire.makefile("rb") as stream:
                return stream.read()


def list_setup_steps() -> tuple[str, ...]:
    """Return the steps at which a simulated device can fail before the exchange."""
    return ("device", "open", "mr", "cq", "qp")


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """Start a peer's listener, with simulated devices on both ends."""
    monkeypatch.setattr(
        rdma,
        "make_connection",
        lambda device, port, gid: (SimulatedDevice(device, port, 1 << 20), 1),
    )
    monkeypatch.setattr(rdma, "SECONDS", 30.0)
    monkeypatch.setattr(rdma, "LEAST", 2.0)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    control = socket.socket(socket.AF_UNIX)
    control.bind(str(tmp_path / "control"))
    control.listen(1)
    spec: Any = {"token": TOKEN, "node": "b", "lifetime": 60.0, "leased": False, "peers": []}
    server = ListenerServer(spec, [listener], control, rdma.ExchangeServers(TOKEN))
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield int(listener.getsockname()[1])
    server.running = False
    thread.join()
    control.close()
    listener.close()


def make_target(port: int, device: str = "good", peer_device: str = "good", **more: Any) -> Any:
    """Describe a pair to test."""
    ends = {"device": device, "port": 1, "gid": GID}
    peer = {f"peer_{key}": value for key, value in ends.items()}
    base = {"node": "b", "address": "127.0.0.1", "tcp_port": port, "spare": False}
    return {**base, **ends, **peer, "peer_device": peer_device, **more}


def run_tries(*targets: Any, token: str = TOKEN, seconds: float = 60.0) -> list[Any]:
    """Test pairs, and return their outcomes sorted."""
    me: Any = {"node": "a", "address": "127.0.0.1", "token": token, "payload": 0}
    found = rdma.try_pairs(list(targets), me, time.monotonic() + seconds)
    return sorted(found, key=lambda one: (one["spare"], one["device"], one["peer_device"]))


def test_all_messages_arrive_in_both_directions(peer: int) -> None:
    (result,) = run_tries(make_target(peer))
    assert result["own"] == result["peer"] == {"step": "", "error": "", "count": len(rdma.SIZES)}
    assert (result["mtu"], result["peer_mtu"]) == (4096, 4096)


@pytest.mark.parametrize(
    ("devices", "own", "other"),
    [
        (("mr@12", "good"), ("mr", "ENOMEM", 0), ("", "", 0)),
        (("good", "mr@12"), ("", "", 0), ("mr", "ENOMEM", 0)),
        (("good", "open@13"), ("", "", 0), ("open", "EACCES", 0)),
        (("rtr@110", "good"), ("rtr", "ETIMEDOUT", 0), ("", "", 0)),
        (("good", "rtr@101"), ("", "", 0), ("rtr", "ENETUNREACH", 0)),
        (("lost@0", "good"), ("send", "IBV_WC_RETRY_EXC_ERR", 0), ("receive", "", 0)),
        (("lost@8", "good"), ("send", "IBV_WC_RETRY_EXC_ERR", 8), ("receive", "", 8)),
        (("good", "lost@0"), ("receive", "", 0), ("send", "IBV_WC_RETRY_EXC_ERR", 1)),
        (("wrong@0", "good"), ("receive", "", 0), ("data", "message 1 of 64 bytes", 1)),
        (("good", "wrong@8"), ("data", "message 9 of 1048576 bytes", 9), ("receive", "", 9)),
        (("crash@0", "good"), ("crashed", "SIGKILL", 0), ("", "", 0)),
        (("hang@0", "good"), ("hung", "SIGALRM", 0), ("", "", 0)),
        (("stuck@0", "good"), ("hung", "SIGKILL", 0), ("", "", 0)),
        (
            ("lost@0", "hang-late@0"),
            ("send", "IBV_WC_RETRY_EXC_ERR", 0),
            ("exchange", "ETIMEDOUT", 0),
        ),
    ],
)
def test_failure_is_reported_for_its_end(
    peer: int,
    devices: tuple[str, str],
    own: tuple[str, str, int],
    other: tuple[str, str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rdma, "PATIENCE", 0.5)
    if any("hang" in device or "stuck" in device for device in devices):
        monkeypatch.setattr(rdma, "SECONDS", 4.0)
    (result,) = run_tries(make_target(peer, *devices))
    assert tuple(result["own"].values()) == own
    assert tuple(result["peer"].values()) == other


@pytest.mark.parametrize(
    ("end", "other", "late"),
    [
        (("send", "", 10), ("", "", 10), True),
        (("send", "", 10), ("", "", 9), False),
        (("send", "", 9), ("", "", 10), False),
        (("send", "IBV_WC_RETRY_EXC_ERR", 10), ("", "", 10), False),
        (("receive", "", 9), ("", "", 10), False),
    ],
)
def test_late_acknowledgement_is_not_a_failure(
    end: tuple[str, str, int], other: tuple[str, str, int], late: bool
) -> None:
    assert rdma.is_late_acknowledgement(rdma.make_end(*end), rdma.make_end(*other)) is late


def test_crashed_peer_ends_the_transfer(peer: int) -> None:
    begun = time.monotonic()
    (result,) = run_tries(make_target(peer, "good", "crash@0"))
    assert result["own"]["step"] == "exchange"
    assert time.monotonic() - begun < rdma.SECONDS


def test_a_client_without_the_secret_gets_no_device(peer: int) -> None:
    (result,) = run_tries(make_target(peer), token=TOKEN + "0")
    assert result["own"]["step"] == "exchange"


def test_spare_pairs_are_tried_after_failures_only(peer: int) -> None:
    spare = [make_target(peer, device, "other", spare=True) for device in ("good", "lost@0")]
    found = run_tries(make_target(peer), make_target(peer, "lost@0"), *spare)
    assert [(one["device"], one["spare"]) for one in found] == [
        ("good", False),
        ("lost@0", False),
        ("lost@0", True),
    ]


def test_time_grows_with_the_transfers_up_to_the_limit(
    peer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rounds of tries whose device hangs. Each round takes 1.2 s."""
    monkeypatch.setattr(rdma, "SECONDS", 1.0)
    monkeypatch.setattr(rdma, "LEAST", 2.5)
    targets = [make_target(peer, "hang@0", f"good{at}") for at in range(3 * rdma.AT_ONCE)]
    monkeypatch.setattr(rdma, "PATIENCE", 0.2)
    steps = [result["own"]["step"] for result in run_tries(*targets)]
    # on a busy machine, the time may end before the device hangs
    assert set(steps) <= {"hung", "exchange"}
    steps = [result["own"]["step"] for result in run_tries(*targets, seconds=3.6)]
    assert set(steps) <= {"hung", "exchange", "not_tried"}
    assert steps.count("not_tried") == len(targets) - rdma.AT_ONCE


@pytest.mark.parametrize(
    ("count", "limit", "seconds"), [(1, 99, 16), (8, 99, 17), (64, 200, 129), (64, 40, 40)]
)
def test_time_for_all_transfers(
    count: int, limit: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    assert rdma.compute_end(count, 1000.0 + limit) == 1000.0 + seconds


def measure_rates(*targets: Any, seconds: float = 60.0) -> list[Any]:
    """Measure the rates of pairs."""
    me: Any = {"node": "a", "address": "127.0.0.1", "token": TOKEN, "payload": 0}
    return rdma_rates.measure_rdma_rates(list(targets), me, time.monotonic() + seconds)


def test_working_pairs_have_a_rate(peer: int) -> None:
    found = measure_rates(
        make_target(peer),
        make_target(peer, "lost@0"),
        make_target(peer, "good", "mr@12"),
        make_target(peer, "good", "other"),
    )
    assert sorted(found, key=lambda one: one["peer_device"]) == [
        {"node": "b", "device": "good", "peer_device": device, "mbit_s": 10000.0}
        for device in ("good", "other")
    ]
    assert measure_rates(make_target(peer), seconds=1.0) == []


def test_pairs_without_time_are_reported(peer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma, "LEAST", 99.0)
    (result,) = run_tries(make_target(peer))
    assert result["own"]["step"] == "not_tried"


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b'{"device": "../x", "port": 1, "gid": "x", "offer": 3}\n',
        b'{"device": "good", "port": "1", "gid": [], "offer": {"gid": "' + b"f" * 39 + b'"}}\n',
        b'{"device": ' + b"[" * 200 + b"\n",
        b"{" + b"9" * 4000 + b"\n",
        b"{",
    ],
)
def test_a_damaged_request_leaves_the_listener_working(peer: int, line: bytes) -> None:
    target = make_target(peer)
    me: Any = {"node": "a", "address": "127.0.0.1", "token": TOKEN, "payload": 0}
    lines = rdma.open_exchange(target, me, time.monotonic() + 5)
    lines.sock.sendall(line)
    lines.sock.close()
    (result,) = run_tries(target)
    assert result["own"]["step"] == ""


OFFER = {"gid": GID, "lid": 0, "number": 17, "psn": 5, "mtu": 5}


def test_valid_offer_is_parsed() -> None:
    assert rdma.parse_offer(OFFER) == (GID, 0, 17, 5, 5)


@pytest.mark.parametrize("key", OFFER)
@pytest.mark.parametrize("value", [None, True, -1, 1 << 24, 1.5, "1", "x" * 39, [], {}, 10**500])
def test_invalid_offer_is_rejected(key: str, value: object) -> None:
    with pytest.raises(rdma.RdmaStepError) as error:
        rdma.parse_offer({**OFFER, key: value})
    assert error.value.args == ("exchange", "EPROTO")


@pytest.mark.parametrize("mtu", [0, 6, 7])
def test_invalid_mtu_is_rejected(mtu: int) -> None:
    with pytest.raises(rdma.RdmaStepError):
        rdma.parse_offer({**OFFER, "mtu": mtu})


@pytest.mark.parametrize(
    "change",
    [
        {"step": "send\n"},
        {"step": "s" * 21},
        {"step": ["send"]},
        {"error": "\x1b[31m"},
        {"error": "e" * 81},
        {"error": {}},
        {"count": True},
        {"count": -1},
        {"count": 11},
        {"count": "1"},
    ],
)
def test_invalid_outcome_is_rejected(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"step": "send", "error": "IBV_WC_RETRY_EXC_ERR", "count": 10}
    assert rdma.parse_end(good) == good
    with pytest.raises(rdma.RdmaStepError):
        rdma.parse_end({**good, **change})


def test_polling_slows_down(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", sleep)
    connection = verbs.Connection.__new__(verbs.Connection)
    connection.poll, connection.is_over = verbs.POLL(lambda *_: 0), (lambda: False)
    with pytest.raises(VerbsError):
        connection.wait("receive", 0, 6.0)
    assert slept[0] == verbs.POLL_LEAST
    assert max(slept) == verbs.POLL_MOST
    assert len(slept) < 400


def test_a_stream_keeps_few_messages_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message takes 0.01 s until its acknowledgement."""
    connection = verbs.Connection.__new__(verbs.Connection)
    connection.outgoing, connection.keys = ctypes.create_string_buffer(64), [1, 2]
    connection.queues, connection.pair, connection.is_over = [1, 2], 0, lambda: False
    clock, in_flight, most = [100.0], [0], [0]

    def post(*_: object) -> int:
        in_flight[0] += 1
        most[0] = max(most[0], in_flight[0])
        return 0

    def poll(*_: object) -> int:
        clock[0] += 0.01
        in_flight[0] -= 1
        return 1

    connection.post_send, connection.poll = post, poll
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert connection.send_stream(64, 0.3, 200.0) == pytest.approx(6400)
    assert (in_flight[0], most[0]) == (0, verbs.IN_FLIGHT)
    connection.poll = lambda *_: 0
    connection.is_over = lambda: True
    with pytest.raises(VerbsError, match="send"):
        connection.send_stream(64, 0.3, 200.0)
    assert connection.receive_stream(64, 200.0) == 0


def test_transfer_process_has_no_listener_ports() -> None:
    client, server = socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    servers = rdma.ExchangeServers(TOKEN)
    servers.start(server, b"")
    (child,) = servers.children
    port = os.readlink(f"/proc/self/fd/{listener.fileno()}")
    kept_link = os.readlink(f"/proc/self/fd/{server.fileno()}")
    held: set[str] = {port}
    ends = time.monotonic() + 5
    while port in held and time.monotonic() < ends:
        with contextlib.suppress(FileNotFoundError):  # the child closes them at this moment
            held = {os.readlink(one) for one in Path(f"/proc/{child}/fd").iterdir()}
        time.sleep(0.02)
    server.close()
    client.close()
    listener.close()
    os.waitpid(child, 0)
    assert held == {os.devnull, kept_link}


def test_busy_peer_is_reported(peer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma, "SERVED_MOST", 0)
    (result,) = run_tries(make_target(peer))
    assert (result["own"]["step"], result["peer"]["step"]) == ("", "busy")


def test_a_node_that_cannot_start_processes_still_answers(
    peer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(os, "fork", fork)
    (result,) = run_tries(make_target(peer))
    assert (result["own"]["step"], result["own"]["error"]) == ("fork", "EAGAIN")


def test_nodes_without_rdma_do_not_load_the_module(tmp_path: Path) -> None:
    assert listeners.prepare_exchanges(TOKEN, str(tmp_path / "missing")) is None
    assert listeners.prepare_exchanges(TOKEN, str(tmp_path)) is None
    (tmp_path / "mlx5_0").mkdir()
    assert listeners.prepare_exchanges(TOKEN, str(tmp_path)) is not None
    program = (
        "import sys; from fullmesh.probe import first_call, second_call; "
        "print({'fullmesh.probe.rdma', 'fullmesh.probe.verbs'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "module_utils",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")


def make_survey(*rails: int, host: int, job: bool = False, hca: str = "") -> Any:
    """Build the survey of a node with one port on each rail, in this order."""
    return {
        "rdma": [make_port(rail, host) for rail in rails],
        "interfaces": [{"addresses": [f"10.8{rail}.0.{host}/24"]} for rail in rails],
        "environment": {"values": {"NCCL_IB_HCA": {"value": hca, "source": ""}} if hca else {}},
        "jobs": [{}] if job else [],
    }


def list_pairs(without_listener: str = "", **surveys: Any) -> dict[str, list[str]]:
    """Return the pairs of each node, spare ones included: ``b rxe1-rxe1``."""
    plan: Any = {"nodes": {name: {"address": "127.0.0.1"} for name in surveys}}
    opened: Any = {
        name: [{"port": 1, "error": "EBUSY" * (name == without_listener)}] for name in surveys
    }
    return {
        name: [
            f"{one['node']} {one['device']}-{one['peer_device']}{' spare' * one['spare']}"
            for one in held
        ]
        for name, held in rdma_pairs.build_rdma_targets(plan, opened, surveys).items()
    }


def test_ports_pair_by_subnet_with_other_rails_as_spares() -> None:
    found = list_pairs(a=make_survey(1, 2, host=11), b=make_survey(2, 1, host=12))
    assert found["a"] == [
        "b rxe1-rxe1",
        "b rxe2-rxe2",
        "b rxe1-rxe2 spare",
        "b rxe2-rxe1 spare",
    ]
    assert len(found["b"]) == 4


def test_node_with_a_job_is_skipped() -> None:
    busy = make_survey(1, host=12, job=True)
    found = list_pairs(a=make_survey(1, host=11), b=busy, c=make_survey(1, host=13))
    assert found == {"a": ["c rxe1-rxe1"], "c": ["a rxe1-rxe1"]}
    assert rdma_pairs.explain_untried({"b": busy}) == {"b": "a job runs on the node"}


def test_only_ports_that_nccl_uses_are_tried() -> None:
    surveys = {
        name: make_survey(1, 2, host=host, hca="=rxe2") for name, host in (("a", 11), ("b", 12))
    }
    assert list_pairs(**surveys)["a"] == ["b rxe2-rxe2"]


def test_peer_without_a_listener_is_skipped() -> None:
    surveys = {name: make_survey(1, host=host) for name, host in (("a", 11), ("b", 12), ("c", 13))}
    assert list_pairs("b", **surveys)["a"] == ["c rxe1-rxe1"]


UNTRIED = set_results(
    (UB, make_try(UB, 1, own={"step": "not_tried", "count": 0}, peer={"count": 0}))
)


def test_diagnosis_reports_untried_pairs() -> None:
    world = records.load_world("healthy")
    UNTRIED(world)
    result = records.diagnose_answers(world)
    rows = [one for one in result["not_looked_at"] if one["what"] == "RDMA transfers"]
    assert [one["node"] for one in rows] == [UB]
    assert "1 pair not tried (ubuntu1 (rxe1) -> el1 (rxe1)): no time was left" in rows[0]["why"]
    assert [one for one in result["findings"] if one["code"].startswith("VC-22")] == []


def test_verification_reports_untried_pairs() -> None:
    seen = records.build_cluster()
    world: Any = {"nodes": seen.nodes}
    UNTRIED(world)
    result = records.verify_answers(seen)
    (check,) = [one for one in result["rungs"] if one["id"] == "L2"]
    (note,) = [one for one in check["details"]["notes"] if "RDMA" in one]
    assert note.startswith("RDMA of ubuntu1: 1 pair not tried")
    (row,) = [one for one in result["links"] if one["from"] == UB]
    assert [one["step"] for one in row["rdma"]] == ["not_tried", ""]


def test_nodes_beyond_the_limit_are_named() -> None:
    seen = records.build_cluster()
    for name, host in (("c", 13), ("d", 14)):
        seen.plan["nodes"][name] = {**seen.plan["nodes"][UB], "name": name}
        seen.nodes[name] = copy.deepcopy(seen.nodes[UB])
        seen.nodes[name]["links"]["rdma"] = {
            "pairs": [make_try(UB, 1, node=EL, gid=make_gid(1, host))],
            "counters": {},
        }
    found = dict(rdma_tries.describe_untried_rdma(seen))
    assert found["c"].startswith("no pair tried with d: each node tries 64 pairs")


def test_each_node_tries_64_pairs_with_its_next_peers() -> None:
    rails = range(1, 9)
    surveys = {f"n{at}": make_survey(*rails, host=at + 1) for at in range(12)}
    found = list_pairs(**surveys)["n3"]
    kept_link = [one for one in found if "spare" not in one]
    assert len(kept_link) == rdma_pairs.MOST
    assert {one.split()[0] for one in kept_link} == {f"n{at % 12}" for at in range(4, 12)}
    assert len(found) - len(kept_link) == rdma_pairs.MOST


def make_port_files(
    folder: Path, gids: dict[int, tuple[str, str]], state: str = "4: ACTIVE"
) -> None:
    """Write a port's files as the kernel shows them."""
    (folder / "gids").mkdir(parents=True)
    (folder / "gid_attrs/types").mkdir(parents=True)
    (folder / "state").write_text(state + "\n")
    (folder / "link_layer").write_text("Ethernet\n")
    for index, (gid, kind) in gids.items():
        (folder / f"gids/{index}").write_text(gid + "\n")
        (folder / f"gid_attrs/types/{index}").write_text(kind + "\n")


@pytest.mark.parametrize(
    ("gids", "state", "step"),
    [
        ({}, "4: ACTIVE", ("gid", "")),
        ({0: (GID, "IB/RoCE v1")}, "4: ACTIVE", ("gid_type", "IB/RoCE v1")),
        ({0: (GID, "RoCE v2")}, "1: DOWN", ("port_down", "DOWN")),
    ],
)
def test_the_device_is_checked_before_it_is_opened(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gids: dict[int, tuple[str, str]],
    state: str,
    step: tuple[str, str],
) -> None:
    monkeypatch.setattr(rdma, "BASE", str(tmp_path))
    make_port_files(tmp_path / "rxe1/ports/1", gids, state)
    with pytest.raises(rdma.RdmaStepError) as error:
        rdma.make_connection("rxe1", 1, GID)
    assert error.value.args == step
    with pytest.raises(rdma.RdmaStepError) as error:
        rdma.make_connection("rxe9", 1, GID)
    assert error.value.args == ("device", "ENODEV")


def test_gid_index_has_the_type_that_jobs_use(tmp_path: Path) -> None:
    make_port_files(tmp_path, {2: (GID, "IB/RoCE v1"), 3: (GID, "RoCE v2")})
    assert rdma.find_gid_index(str(tmp_path), GID) == 3


def test_the_survey_reads_firmware_and_pcie_link(tmp_path: Path) -> None:
    make_port_files(tmp_path / "mlx5_0/ports/1", {0: (GID, "RoCE v2")})
    assert not {"firmware", "board", "pcie"} & job.survey_rdma(str(tmp_path))[0].keys()
    link = {
        "current_link_width": "8",
        "max_link_width": "16",
        "current_link_speed": "16.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
    }
    device = tmp_path / "mlx5_0/device"
    device.mkdir()
    for name, text in link.items():
        (device / name).write_text(text + "\n")
    (tmp_path / "mlx5_0/fw_ver").write_text("28.39.3004\n")
    (tmp_path / "mlx5_0/board_id").write_text("MT_0000000838\n")
    (port,) = job.survey_rdma(str(tmp_path))
    assert (port["firmware"], port["board"]) == ("28.39.3004", "MT_0000000838")
    assert port["pcie"] == link


@pytest.mark.parametrize("gid", ["..", "fe80::1%eth0/64", "1", "::ffff:999.1.1.1"])
def test_invalid_gid_is_ignored(gid: str) -> None:
    survey = make_survey(1, host=11)
    survey["rdma"][0].update(layer="InfiniBand", gids=[{"index": 0, "type": "", "gid": gid}])
    assert list_pairs(a=survey, b=make_survey(1, host=12)) == {}
    seen = records.build_cluster()
    for key in ("gid", "peer_gid"):
        transfer = make_try(UB, 1, own={"step": "send", "count": 0}, **{key: gid})
        seen.nodes[UB]["links"]["rdma"] = {"pairs": [transfer], "counters": {}}
        assert list(rdma_tries.check_rdma(seen)) == []


def test_number_of_ports_is_limited() -> None:
    many = make_survey(1, host=11)
    many["rdma"] *= 20_000
    assert len(rdma_pairs.list_job_ports(many)) == rdma_pairs.PORTS_MOST


def test_child_stuck_in_the_driver_is_hung() -> None:
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    status = rdma.wait_for_end(child, time.monotonic())
    assert (os.WIFSIGNALED(status), os.WTERMSIG(status)) == (True, signal.SIGALRM)
    os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("hca", "lanes", "speed"),
    [
        ("", {}, 200),
        ("=rxe1", {}, 100),
        ("", {"current_link_width": "4", "current_link_speed": "32.0 GT/s PCIe"}, 200),
        ("", {"current_link_width": "2", "current_link_speed": "32.0 GT/s PCIe"}, 126),
    ],
)
def test_nccl_is_compared_with_the_sum_of_its_rails(
    hca: str, lanes: dict[str, str], speed: int
) -> None:
    """Twin ports of a DGX Spark show the rate of the port, but each has half of its lanes."""
    seen = records.build_cluster()
    for name, host in ((EL, 11), (UB, 12)):
        held: Any = make_survey(1, 2, host=host, hca=hca)
        for port in held["rdma"]:
            port["pcie"] = lanes
        seen.survey(name).update(rdma=held["rdma"], environment=held["environment"])
    assert round(gpu.find_expected_speed(seen)[1]) == speed


def test_counters_of_the_device_and_of_its_nic_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NIC is the interface of the target's own address."""
    port = tmp_path / "rxe1/ports/1"
    make_port_files(port, {0: (make_gid(1, 12), "RoCE v2"), 3: (GID, "RoCE v2")})
    (port / "gid_attrs/ndevs").mkdir()
    for index, interface in ((0, "ens9"), (3, "ens2")):
        (port / f"gid_attrs/ndevs/{index}").write_text(interface + "\n")
    (port / "hw_counters").mkdir()
    counter = port / "hw_counters/out_of_sequence"
    counter.write_text("7\n")
    losses = {"ens2": {"rx_discards_phy": 1, "rx_crc_errors_phy": 5}}
    asked: list[set[str]] = []
    monkeypatch.setattr(rdma, "BASE", str(tmp_path))
    monkeypatch.setattr(rdma, "read_losses", lambda names: (asked.append(names), losses)[1])

    def try_pairs(*_: object) -> list[object]:
        counter.write_text("9\n")
        losses["ens2"] = {"rx_discards_phy": 4, "rx_crc_errors_phy": 5, "rx_prio0_discards": 3}
        return []

    monkeypatch.setattr(rdma, "try_pairs", try_pairs)
    me: Any = {"node": UB, "address": "", "token": "", "payload": 0}
    target: Any = {"device": "rxe1", "port": 1, "gid": GID}
    found = rdma.probe_rdma([target], me, 0.0)
    assert found["counters"] == {"rxe1:1 out_of_sequence": 2, "ens2 rx_discards_phy": 3}
    assert asked == [{"ens2"}, {"ens2"}]


@pytest.mark.parametrize(
    ("counter", "fix"),
    [
        ("ens2 rx_discards_phy", "because the NIC's buffers were full"),
        ("ens2 rx_dropped.nic", "because the NIC's buffers were full"),
        ("ens2 rx_crc_errors_phy", "check cable, optics and flow control"),
        ("rxe1:1 out_of_sequence", "check cable, optics and flow control"),
    ],
)
def test_discarded_packets_are_a_matter_of_flow_control(counter: str, fix: str) -> None:
    seen = records.build_cluster()
    seen.nodes[UB]["links"]["rdma"] = {"pairs": [], "counters": {counter: 3}}
    (finding,) = rdma_tries.check_rdma(seen)
    assert (finding.code, finding.node, finding.seen) == ("VC-230", UB, f"{counter} +3")
    assert fix in finding.fix


def make_three_nodes(*lost: tuple[str, str], rail: int = 1, count: int = 0) -> Any:
    """Return a cluster of three nodes with two rails, whose packets on one rail are lost between some pairs."""
    seen = records.build_cluster()
    names = {EL: 11, UB: 12, "c": 13}
    seen.plan["nodes"]["c"] = {**seen.plan["nodes"][UB], "name": "c"}
    seen.nodes["c"] = copy.deepcopy(seen.nodes[UB])
    for source, host in names.items():
        pairs = []
        for target, on in itertools.product(set(names) - {source}, (1, 2)):
            gids = {"gid": make_gid(on, host), "peer_gid": make_gid(on, names[target])}
            bad = {source, target} in map(set, lost) and on == rail
            own = {"step": "send", "error": "IBV_WC_RETRY_EXC_ERR", "count": count}
            ends = {"own": own, "peer": {"step": "receive", "count": count}} if bad else {}
            pairs.append(make_try(UB, on, node=target, **gids, **ends))
        seen.nodes[source]["links"]["rdma"] = {"pairs": pairs, "counters": {}}
    return seen


@pytest.mark.parametrize(
    ("lost", "count", "expected"),
    [
        ([(EL, "c"), (UB, "c")], 0, [("VC-224", "c", "lost on rxe1 of c, and its peers reach")]),
        ([(EL, "c"), (UB, "c")], 8, [("VC-225", "c", "arrive on rxe1 of c, and its peers reach")]),
        ([(UB, "c")], 0, [("VC-224", "c", "RDMA packets are lost: ")]),
        # no pair works, so it can be the switch
        ([(EL, "c"), (UB, "c"), (EL, UB)], 0, [("VC-224", "", "RDMA packets are lost: ")] * 3),
    ],
)
def test_loss_at_one_of_three_nodes_is_one_finding(
    lost: list[tuple[str, str]], count: int, expected: list[tuple[str, str, str]]
) -> None:
    found = list(rdma_tries.check_rdma(make_three_nodes(*lost, count=count)))
    assert len(found) == len(expected), found
    for finding, (code, node, words) in zip(found, expected, strict=True):
        assert (finding.code, words in finding.cause) == (code, True), finding
        assert node in ("", finding.node)
    if "reach" in expected[0][2]:
        assert found[0].peer == f"{EL}, {UB}"
        assert "on c, its cable and its switch port" in found[0].fix
        assert len(found[0].pairs) == 4


def test_lower_mtu_of_one_of_three_nodes_is_one_finding() -> None:
    seen = make_three_nodes()
    for name in seen.plan["nodes"]:
        for said in seen.nodes[name]["links"]["rdma"]["pairs"]:
            if said["device"] == "rxe2" and "c" in (name, said["node"]):
                said["mtu" if name == "c" else "peer_mtu"] = 1024
    (finding,) = rdma_tries.check_rdma(seen)
    assert (finding.code, finding.node) == ("VC-228", "c")
    assert finding.peer == f"{EL}, {UB}"
    assert finding.seen == f"1024 bytes on c, 4096 on {EL} (rxe2), 4096 on {UB} (rxe2)"


@pytest.mark.parametrize(
    ("pairs", "node", "words"),
    [
        ([(EL, "c"), (UB, "c")], "c", "of the rails of c are swapped"),
        ([(EL, UB)], EL, f"of the rails between {EL} and {UB} are swapped"),
    ],
)
def test_swapped_cables_of_one_of_three_nodes_are_one_finding(
    pairs: list[tuple[str, str]], node: str, words: str
) -> None:
    swapped = {tuple(sorted(pair)): ["a way"] for pair in pairs}
    finding = rdma_tries.make_swap_finding(make_three_nodes(), swapped)
    assert (finding.node, words in finding.cause) == (node, True)
    assert f"swap the cables of the two ports at {node}" in finding.fix
