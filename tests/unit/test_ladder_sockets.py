"""What is read from the kernel: TCP_INFO, socket tables, routes, tapped packets."""

from __future__ import annotations

import os
import socket
import struct
import sys

import pytest
from ansible.module_utils.fullmesh.facts import sockets
from ansible.module_utils.fullmesh.probe import bound, handshake, observe, tap
from ansible.module_utils.fullmesh.survey import lookup

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B064E0A:C351 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0
   1: 00000000:733C 0C064E0A:9C41 01 00000000:00000000 00:00000000 00000000     0        0 12346 1 0
"""


def test_socket_tables_are_read() -> None:
    rows = sockets.parse_socket_table(TABLE)
    assert [(r["address"], r["port"], r["state"], r["inode"]) for r in rows] == [
        ("10.78.6.11", 50001, sockets.LISTEN, "12345"),
        ("0.0.0.0", 29500, sockets.ESTABLISHED, "12346"),  # noqa: S104 (compared with)
    ]
    assert (rows[1]["peer"], rows[1]["peer_port"]) == ("10.78.6.12", 40001)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("000078FD000000000000000011000000", "fd78::11"),
        ("0000000000000000FFFF00000B064E0A", "10.78.6.11"),
        ("00000000000000000000000000000000", "::"),
    ],
)
def test_addresses_of_proc_are_decoded(text: str, address: str) -> None:
    assert sockets.decode_address(text) == address


def test_the_owner_of_a_listener_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        assert f"(pid {os.getpid()})" in sockets.find_port_owner(port)
    assert sockets.find_port_owner(port) == ""


def test_tcp_info_of_a_real_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
        assert sockets.read_tcp_info(sock)["state"] == sockets.CLOSE
        sock.connect(server.getsockname())
        info = sockets.read_tcp_info(sock)
    assert info["state"] == sockets.ESTABLISHED
    assert 0 < info["rtt_us"] < 5_000_000
    assert info["pmtu"] > 1000


@pytest.mark.parametrize(
    ("text", "route"),
    [
        (
            "10.78.6.12 dev eth1 src 10.78.6.11 uid 0 \\    cache \n",
            {"via": "", "dev": "eth1", "src": "10.78.6.11"},
        ),
        (
            "10.9.0.1 via 10.77.6.1 dev eth0 src 10.77.6.11 uid 0 \\ cache",
            {"via": "10.77.6.1", "dev": "eth0", "src": "10.77.6.11"},
        ),
        ("", {"via": "", "dev": "", "src": ""}),
    ],
)
def test_routes_are_read(text: str, route: dict[str, str]) -> None:
    assert sockets.parse_route(text) == route


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("10.78.6.12 dev eth1 lladdr 02:00:00:00:00:01 REACHABLE", "reachable"),
        ("10.78.6.12 dev eth1 lladdr 02:00:00:00:00:01 STALE", "reachable"),
        ("10.78.6.12 dev eth1  FAILED", "failed"),
        ("10.78.6.12 dev eth1  INCOMPLETE", "failed"),
        ("", "unknown"),
    ],
)
def test_neighbours_are_read(text: str, state: str) -> None:
    assert sockets.parse_neighbour(text) == state


def test_names_are_looked_up_with_one_deadline() -> None:
    found = lookup.observe_names([{"address": "127.0.0.1", "names": ["localhost"]}], "127.0.0.1")
    assert found["plan"]["localhost"] == ["127.0.0.1"]
    assert found["hostname"] == socket.gethostname()


def test_a_silent_name_server_costs_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "look_up_name", lambda *_: __import__("time").sleep(60))
    names = {f"n{i}": socket.AF_INET for i in range(200)}
    assert lookup.look_up_names(names, 0.2) == dict.fromkeys(names)


def test_an_interpreter_that_is_not_there_has_no_versions() -> None:
    assert observe.observe_versions("/nonexistent/python") == {}


def test_an_interpreter_that_is_there_has_versions() -> None:
    assert observe.observe_versions(sys.executable)["python"].startswith(sys.version.split()[0])


def make_ipv4_packet(flags: int, sport: int = 40000, dport: int = 50001, options: int = 0) -> bytes:
    head = bytes([0x45 + options, 0, 0, 60]) + bytes(5) + b"\x06" + bytes(2)
    head += socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2") + bytes(4 * options)
    return head + struct.pack(">HHIIBB", sport, dport, 0, 0, 0x50, flags) + bytes(6)


def make_ipv6_packet(
    flags: int, sport: int = 40000, dport: int = 50001, following: int = 6
) -> bytes:
    head = bytes([0x60, 0, 0, 0, 0, 20, following, 64])
    head += socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(
        socket.AF_INET6, "fd00::2"
    )
    return head + struct.pack(">HHIIBB", sport, dport, 0, 0, 0x50, flags) + bytes(6)


SYN, SYN_ACK, ACK_ONLY = 0x02, 0x12, 0x10


@pytest.mark.parametrize(
    ("packet", "seen"),
    [
        (make_ipv4_packet(SYN), ("10.0.0.1", "10.0.0.2", 50001, False)),
        (make_ipv4_packet(SYN, options=2), ("10.0.0.1", "10.0.0.2", 50001, False)),
        (make_ipv4_packet(SYN_ACK, 50001, 40000), ("10.0.0.2", "10.0.0.1", 50001, True)),
        (make_ipv6_packet(SYN), ("fd00::1", "fd00::2", 50001, False)),
        (make_ipv6_packet(SYN_ACK, 50001, 40000), ("fd00::2", "fd00::1", 50001, True)),
        (b"", None),
        (make_ipv4_packet(SYN)[:22], None),
    ],
)
def test_handshakes_are_read_from_packets(packet: bytes, seen: object) -> None:
    assert tap.parse_handshake(packet) == seen


def run_filter(program: tuple[tuple[int, int, int, int], ...], packet: bytes) -> bool:
    """Just enough of the kernel's classic BPF."""
    at, a, x = 0, 0, 0
    while True:
        code, jump_true, jump_false, k = program[at]
        at += 1
        if code == 0x06:
            return k != 0
        if code == 0x30:
            a = packet[k]
        elif code == 0x50:
            a = packet[x + k]
        elif code == 0x54:
            a &= k
        elif code == 0xB1:
            x = 4 * (packet[k] & 0x0F)
        elif code == 0x15:
            at += jump_true if a == k else jump_false
        elif code == 0x45:
            at += jump_true if a & k else jump_false


@pytest.mark.parametrize(
    ("family", "packet", "taken"),
    [
        (socket.AF_INET, make_ipv4_packet(SYN), True),
        (socket.AF_INET, make_ipv4_packet(SYN_ACK), True),
        (socket.AF_INET, make_ipv4_packet(SYN, options=3), True),
        (socket.AF_INET, make_ipv4_packet(ACK_ONLY), False),
        (socket.AF_INET, make_ipv6_packet(SYN), False),
        (socket.AF_INET6, make_ipv6_packet(SYN), True),
        (socket.AF_INET6, make_ipv6_packet(SYN_ACK), True),
        (socket.AF_INET6, make_ipv6_packet(ACK_ONLY), False),
        (socket.AF_INET6, make_ipv6_packet(SYN, following=17), False),
        (socket.AF_INET6, make_ipv4_packet(SYN), False),
    ],
)
def test_the_tap_takes_handshakes_only(family: int, packet: bytes, taken: bool) -> None:
    assert run_filter(tap.SYN_FILTERS[family], packet) is taken


def test_ports_of_other_uses_are_never_candidates() -> None:
    found = bound.choose_outside_ports([[1, 40000], [50000, 65535]], 7)
    assert found
    assert all(40000 < port < 50000 for port in found)
    assert bound.choose_outside_ports([[1, 65535]], 7) == []


@pytest.mark.parametrize(
    "line", [b"", b"SSH-2.0-x", b"fullmesh-probe/1 a b c", b"fullmesh-probe/2 a b 1.0", b"\xff\xfe"]
)
def test_foreign_greetings_are_not_ours(line: bytes) -> None:
    assert handshake.parse_hello_line(line) is None


def test_both_ends_prove_themselves() -> None:
    assert handshake.parse_hello_line(handshake.format_hello_line("n1", "aa", 1.5)) == (
        "n1",
        "aa",
        1.5,
    )
    line = handshake.format_client_line("secret", "me", "aa", "bb", 7)
    assert handshake.parse_client_line(line, "secret", "aa") == ("me", "bb", 7)
    assert handshake.parse_client_line(line, "other", "aa") is None
    assert (
        handshake.parse_client_line(line, "secret", "zz") is None
    )  # replayed to another connection
    grown = line.replace(b" 7\n", b" 8\n")
    assert handshake.parse_client_line(grown, "secret", "aa") is None
    answer = handshake.format_ok_line("secret", "n1", "aa", "bb", "10.0.0.1")
    assert handshake.parse_ok_line(answer, "secret", "n1", "aa", "bb") == "10.0.0.1"
    assert handshake.parse_ok_line(answer, "secret", "n2", "aa", "bb") is None


def test_a_payload_beyond_reason_is_refused() -> None:
    line = handshake.format_client_line("s", "me", "aa", "bb", handshake.PAYLOAD_LIMIT + 1)
    assert handshake.parse_client_line(line, "s", "aa") is None
