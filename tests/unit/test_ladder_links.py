"""The link probe and its listeners on loopback: every class of result, and access control."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.facts.sockets import CLOSE, ESTABLISHED, SYN_SENT
from ansible.module_utils.fullmesh.probe import bound, listeners, pairs, verdicts
from ansible.module_utils.fullmesh.schema.ladder import SLOW

TOKEN = "t0ken"  # noqa: S105 (of a test)
HOME = "127.0.0.1"
QUIET: dict[str, Any] = {
    "error": 0,
    "state": ESTABLISHED,
    "connected": True,
    "closed": False,
    "at_once": False,
    "neighbour": "reachable",
    "source": "10.0.0.1",
    "own": "10.0.0.1",
    "greeted": None,
    "proved": False,
    "complete": False,
    "uploaded": False,
    "unacked": 0,
    "retransmitted": 0,
    "moved": 0,
}
WAITING = {"connected": False, "state": SYN_SENT}
FAILED_TO_CONNECT = {"connected": False, "state": CLOSE}
GREETED = {"greeted": True, "proved": True}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"complete": True}, "open"),
        (WAITING, "dropped"),
        ({**WAITING, "neighbour": "failed"}, "no_route"),
        ({**WAITING, "neighbour": "unknown"}, "dropped"),
        ({**FAILED_TO_CONNECT, "error": errno.ETIMEDOUT}, "dropped"),
        ({**FAILED_TO_CONNECT, "error": errno.ECONNREFUSED}, "refused"),
        ({**FAILED_TO_CONNECT, "error": errno.EHOSTUNREACH}, "rejected"),
        ({**FAILED_TO_CONNECT, "error": errno.EHOSTUNREACH, "neighbour": "failed"}, "no_route"),
        ({**FAILED_TO_CONNECT, "error": errno.ENETUNREACH}, "no_route"),
        ({**FAILED_TO_CONNECT, "error": errno.EACCES}, "rejected"),  # IPv6 admin-prohibited
        ({**FAILED_TO_CONNECT, "error": errno.EPERM}, "rejected"),
        (FAILED_TO_CONNECT, "reset"),
        ({"error": errno.ECONNRESET, "greeted": True}, "reset"),
        ({"error": errno.ECONNREFUSED}, "reset"),
        ({"closed": True, "greeted": True}, "reset"),
        ({"greeted": False}, "someone_else"),
        ({"greeted": False, "error": errno.ECONNRESET}, "someone_else"),
        ({**GREETED, "unacked": 9, "retransmitted": 3}, "mtu_black_hole"),
        ({**GREETED, "uploaded": True}, "mtu_black_hole"),
        ({**GREETED, "unacked": 9, "retransmitted": 3, "moved": 20000}, "open"),  # slow: it gets on
        ({**GREETED, "uploaded": True, "moved": 20000}, "open"),
        ({"unacked": 9, "retransmitted": 3}, "open"),  # not even greeted: the peer is busy
        ({}, "open"),
        ({"complete": True, "source": "10.9.9.9"}, "wrong_source"),
        ({**WAITING, "source": "10.9.9.9"}, "wrong_source"),
        ({**WAITING, "source": ""}, "dropped"),
        ({"complete": True, "source": "10.9.9.9", "own": ""}, "open"),
    ],
)
def test_the_kernels_answer_becomes_a_verdict(change: dict[str, Any], word: str) -> None:
    assert verdicts.classify_outcome({**QUIET, **change})[0] == word


def test_a_late_answer_is_open_with_a_remark() -> None:
    assert verdicts.classify_outcome(QUIET) == ("open", "connected, but the answer was late")


class Peer:
    """A server of listeners in a thread."""

    def __init__(self, node: str = "peer", token: str = TOKEN, lifetime: float = 30.0) -> None:
        self.sock = bound.bind_listener(HOME, 0)
        self.port = self.sock.getsockname()[1]
        spec = {
            "token": token,
            "node": node,
            "lifetime": lifetime,
            "leased": False,
            "peers": [HOME],
        }
        self.control = socket.socket(socket.AF_UNIX)
        self.control.bind(f"\0fullmesh-test-{self.port}")
        self.control.listen()
        self.server = listeners.ListenerServer(spec, [self.sock], self.control)
        self.thread = threading.Thread(target=self.server.serve, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.running = False
        self.thread.join(5)
        self.control.close()
        self.sock.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def ask(port: int, **change: Any) -> dict[str, Any]:
    me = {"node": "me", "address": HOME, "token": TOKEN, "payload": 65536}
    me.update({k: v for k, v in change.items() if k in me})
    target = {"node": "peer", "address": HOME, "port": port, "kind": "sample"}
    target.update({k: v for k, v in change.items() if k in ("kind",)})
    return pairs.probe_links([target], me, change.get("seconds", 5.0), 100)[0]


def test_open_with_payload_both_ways(peer: Peer) -> None:
    answer = ask(peer.port)
    assert (answer["verdict"], answer["remark"], answer["attempts"]) == ("open", "", 1)
    assert answer["ms"] > 0
    assert answer["rtt_ms"] > 0
    assert abs(answer["offset"]) <= answer["offset_error"] + 0.001
    assert peer.server.proved == {"me": 1}


class Full:
    """A fake of a socket whose buffer is full at every second call, as with a tcp_wmem of a few hundred bytes."""

    def __init__(self, held: socket.socket) -> None:
        self.held, self.calls = held, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)

    def send(self, data: bytes) -> int:
        self.calls += 1
        if self.calls % 2 == 0:
            raise BlockingIOError
        return self.held.send(data[:20000])


def test_a_listener_waits_for_memory_and_continues(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Narrow(listeners.ListenerConnection):
        def __init__(self, sock: Any, *more: Any) -> None:
            super().__init__(Full(sock), *more)

    monkeypatch.setattr(listeners, "ListenerConnection", Narrow)
    answer = ask(peer.port, seconds=3.0)
    assert (answer["verdict"], answer["remark"]) == ("open", "")


@pytest.mark.parametrize("payload", [0, 1, 65536, 1000003])
def test_payload_of_any_size(peer: Peer, payload: int) -> None:
    assert ask(peer.port, payload=payload)["verdict"] == "open"


def test_hundreds_at_once(peer: Peer) -> None:
    target = {"node": "peer", "address": HOME, "port": peer.port, "kind": "sample"}
    me = {"node": "me", "address": HOME, "token": TOKEN, "payload": 4096}
    answers = pairs.probe_links([target] * 300, me, 20.0, 128)
    assert {a["verdict"] for a in answers} == {"open"}
    assert peer.server.proved == {"me": 300}


def ask_range(ports: list[int]) -> dict[int, tuple[str, str]]:
    """What became of several ports of one range: word and remark."""
    me = {"node": "me", "address": HOME, "token": TOKEN, "payload": 4096}
    targets = [{"node": "peer", "address": HOME, "port": port, "kind": "range"} for port in ports]
    answers = pairs.probe_links(targets, me, 5.0, 100)
    return {one["port"]: (one["verdict"], one["remark"]) for one in answers}


def recheck_port(port: int, *more: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """What one connection alone makes of lost packets that many at once seemed to show."""
    me: Any = {"node": "me", "address": HOME, "token": TOKEN, "payload": 65536}
    target: Any = {"node": "peer", "address": HOME, "port": port, "kind": "sample"}
    usual = {"node": "peer", "port": port, "verdict": "open", "remark": "", "kind": "sample"}
    results: Any = [{**usual, "lost": 0, **one} for one in more]
    return pairs.refute_black_holes(results, [target], me, 2.0)


BLACK = {"verdict": "mtu_black_hole", "remark": "small packets pass"}


def test_a_slow_link_is_no_black_hole(peer: Peer) -> None:
    found, rates = recheck_port(
        peer.port, BLACK, {**BLACK, "node": "other"}, {"verdict": "dropped"}
    )
    assert [one["verdict"] for one in found] == ["open", "mtu_black_hole", "dropped"]
    assert found[0]["remark"].startswith(SLOW)
    assert rates == []  # loopback is fast


def test_a_black_hole_stays_one(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the client sends arrives."""
    monkeypatch.setattr(pairs.ProbeMesh, "write", lambda *_: None)
    (mine,), rates = recheck_port(peer.port, BLACK)
    assert (mine["verdict"], mine["remark"], rates) == ("mtu_black_hole", "small packets pass", [])


@pytest.mark.parametrize(
    ("rate", "lost", "kept"), [(1.9, 0, True), (1.9, 4, False), (800.0, 0, False)]
)
def test_only_a_rate_without_loss_is_the_links_own(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, rate: float, lost: int, kept: bool
) -> None:
    measured = {"node": "peer", "mbit_s": rate, "lost": lost}
    monkeypatch.setattr(pairs, "measure_rate", lambda *_: measured)
    found, rates = recheck_port(peer.port, *({"lost": 2} for _ in range(4)))
    assert {(one["verdict"], one["remark"]) for one in found} == {("open", "")}
    assert rates == ([measured] if kept else [])


def test_links_without_loss_are_not_tried_again(peer: Peer) -> None:
    assert recheck_port(peer.port, {"lost": 1}, *({} for _ in range(4)))[1] == []
    assert peer.server.proved == {}


def shut_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOME, 0))
        return int(probe.getsockname()[1])


def test_an_open_port_among_blocked_ones_is_tried_again(peer: Peer) -> None:
    shut = shut_port()
    assert ask_range([peer.port, shut]) == {peer.port: ("open", ""), shut: ("refused", "")}
    assert peer.server.proved == {"me": 2}


def test_open_ports_are_tried_once(peer: Peer) -> None:
    assert ask_range([peer.port]) == {peer.port: ("open", "")}
    assert peer.server.proved == {"me": 1}


def test_a_port_that_was_open_by_chance_does_not_count(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a firewall takes the first connection for one that it knows."""
    shut, rounds, whole = shut_port(), [], pairs.ProbeMesh.round

    def then_closed(mesh: Any, targets: Any, seconds: float) -> Any:
        found = whole(mesh, targets, seconds)
        rounds.append([target["port"] for target in targets])
        peer.sock.close()
        return found

    monkeypatch.setattr(pairs.ProbeMesh, "round", then_closed)
    told = f"open at first, then closed in the second test, so not counted: {peer.port}"
    assert ask_range([peer.port, shut]) == {shut: ("refused", told)}
    assert rounds == [[peer.port, shut], [peer.port]]


def test_wrong_token_is_turned_away_with_a_reset(peer: Peer) -> None:
    answer = ask(peer.port, token="guess")  # noqa: S106 (of a test)
    assert answer["verdict"] in ("reset", "someone_else")
    assert peer.server.refused == 1
    assert peer.server.strangers == [HOME]
    assert peer.server.proved == {}


def test_a_client_that_sends_garbage_is_rejected(peer: Peer) -> None:
    with socket.create_connection((HOME, peer.port), timeout=5) as sock:
        sock.recv(100)
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            sock.recv(100)
    assert peer.server.refused == 1


def test_another_node_at_the_peer_s_address_is_someone_else() -> None:
    other = Peer(node="impostor")
    try:
        assert ask(other.port)["verdict"] == "someone_else"
    finally:
        other.close()


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    sock = socket.create_server((HOME, 0), backlog=64)
    yield sock
    sock.close()


@pytest.mark.parametrize("banner", [b"SSH-2.0-OpenSSH_9.6\r\n", b"x" * 5000, b""])
def test_a_foreign_service_is_someone_else(stranger: socket.socket, banner: bytes) -> None:
    def serve() -> None:
        caller, _ = stranger.accept()
        caller.sendall(banner)
        caller.close()

    threading.Thread(target=serve, daemon=True).start()
    assert ask(stranger.getsockname()[1])["verdict"] == "someone_else"


def test_a_foreign_service_without_an_answer_is_open_but_late(stranger: socket.socket) -> None:
    answer = ask(stranger.getsockname()[1], seconds=0.3)
    assert (answer["verdict"], answer["attempts"]) == ("open", 2)
    assert "late" in answer["remark"]


def test_a_port_without_listener_is_refused(stranger: socket.socket) -> None:
    port = stranger.getsockname()[1]
    stranger.close()
    answer = ask(port)
    assert (answer["verdict"], answer["errno"]) == ("refused", "ECONNREFUSED")


def test_no_reply_is_dropped_after_two_tries() -> None:
    # A full accept queue does not answer a SYN, so there is no reply even without a firewall.
    with socket.create_server((HOME, 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex((HOME, port))
            waiting.append(sock)
        answer = ask(port, seconds=0.4)
        for sock in waiting:
            sock.close()
    assert (answer["verdict"], answer["attempts"]) == ("dropped", 2)


def test_wrong_source_is_named(peer: Peer) -> None:
    answer = ask(peer.port, address="127.0.0.9")
    assert answer["verdict"] == "wrong_source"
    assert HOME in answer["remark"]


def test_a_port_that_must_be_closed_is_tried_once() -> None:
    listener = Peer()
    try:
        assert ask(listener.port, kind="outside")["verdict"] == "open"
    finally:
        listener.close()
    answer = ask(listener.port, kind="outside")
    assert (answer["verdict"], answer["attempts"]) == ("refused", 1)


def test_a_service_that_speaks_first_is_only_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC sends its settings at once (RFC 9113, 3.4): a busy machine has them before it sees the handshake."""
    launch = pairs.ProbeMesh.launch

    def slow(mesh: pairs.ProbeMesh, probe: pairs.ConnectionProbe) -> None:
        launch(mesh, probe)
        time.sleep(0.2)

    def serve() -> None:
        while True:
            try:
                taken.append(sock.accept()[0])
            except OSError:
                return
            taken[-1].sendall(b"\0\0\x12\x04" + b"\0" * 20)

    monkeypatch.setattr(pairs.ProbeMesh, "launch", slow)
    sock = bound.bind_listener(HOME, 0)
    sock.listen()
    taken: list[socket.socket] = []
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        answer = ask(sock.getsockname()[1], kind="held")
    finally:
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()
        thread.join(5)
        for one in taken:
            one.close()
    assert (answer["verdict"], answer["remark"], answer["reached"]) == ("open", "", "complete")
    assert answer["attempts"] == 1


def make_spec(base: Path, **change: Any) -> dict[str, Any]:
    (base / "run1").mkdir()
    made = {
        "run": "run1",
        "base": str(base),
        "token": TOKEN,
        "node": "peer",
        "address": HOME,
        "interface": "",
        "samples": 2,
        "named": [],
        "outside": True,
        "allowed": [[1, 30000]],
        "lifetime": 30,
        "leased": False,
        "spread": [],
        "peers": [HOME],
        "rails": [],
    }
    return {**made, **change}


def test_detached_listeners_serve_and_stop(tmp_path: Path) -> None:
    opened = listeners.start_listeners(make_spec(tmp_path))
    assert [p["kind"] for p in opened["ports"]] == ["sample", "sample", "outside"]
    assert opened["ports"][2]["port"] > 30000
    for port in opened["ports"][:2]:
        assert ask(port["port"])["verdict"] == "open"
    report = listeners.stop_listeners("run1", str(tmp_path))
    assert report["proved"] == {"me": 2}
    assert listeners.stop_listeners("run1", str(tmp_path)) is None
    deadline = time.monotonic() + 5
    while ask(opened["ports"][0]["port"])["verdict"] != "refused":
        assert time.monotonic() < deadline


def test_abandoned_listeners_end_by_themselves(tmp_path: Path) -> None:
    opened = listeners.start_listeners(make_spec(tmp_path, lifetime=1))
    assert ask(opened["ports"][0]["port"])["verdict"] == "open"
    deadline = time.monotonic() + 10
    while (tmp_path / "run1").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    while ask(opened["ports"][0]["port"])["verdict"] != "refused":
        assert time.monotonic() < deadline


def test_a_port_in_use_names_its_process(tmp_path: Path, stranger: socket.socket) -> None:
    port = stranger.getsockname()[1]
    stranger.close()
    with socket.create_server(("0.0.0.0", port)):  # noqa: S104 (as TCPStore does)
        opened = listeners.start_listeners(
            make_spec(tmp_path, named=[{"kind": "master", "port": port}], outside=False)
        )
        listeners.stop_listeners("run1", str(tmp_path))
    taken = opened["ports"][2]
    assert (taken["kind"], taken["error"]) == ("master", "EADDRINUSE")
    assert "pid" in taken["holder"]
