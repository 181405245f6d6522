"""static_ip: the connection of the controller, and the neighbours."""

from __future__ import annotations

import errno
import json
import socket
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import reach
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from static_ip_node import OURS, kernel


@pytest.mark.parametrize(
    ("server", "addresses", "to"),
    [
        ("10.0.0.11", ["10.0.0.12/24"], "10.0.0.12"),
        ("10.0.0.11", ["fd00::1/64", "10.0.0.12/24"], "10.0.0.12"),
        ("10.0.0.11", ["fd00::1/64"], "fd00::1"),
        ("10.0.0.11", ["10.0.0.11/24"], ""),
        ("10.0.0.11", ["10.0.0.12/24", "10.0.0.11/16"], ""),
        ("192.0.2.1", ["10.0.0.12/24"], ""),
        ("", ["10.0.0.12/24"], ""),
    ],
)
def test_the_route_back_to_the_controller_is_kept(
    server: str, addresses: list[str], to: str
) -> None:
    seen = ip_tool.parse_links(json.dumps([kernel(OURS)]))
    assert reach.find_return_address(addresses, ["eth1"], server, seen) == to


SOURCE = bytes.fromhex("02000000000a")


def frame(sender: str, address: str) -> bytes:
    probe = reach.build_arp_probe(bytes.fromhex(sender), "10.0.0.11")
    return probe[:28] + bytes(int(part) for part in address.split(".")) + probe[32:]


@pytest.mark.parametrize(
    ("data", "owner"),
    [
        (frame("02000000000b", "10.0.0.11"), "02:00:00:00:00:0b"),
        (frame("02000000000b", "10.0.0.12"), ""),
        (frame("02000000000a", "10.0.0.11"), ""),
        (frame("02000000000c", "10.0.0.11"), ""),  # another interface of this node
        (b"short", ""),
    ],
)
def test_arp_answers(data: bytes, owner: str) -> None:
    own = (SOURCE, bytes.fromhex("02000000000c"))
    assert reach.parse_arp_owner(data, own, "10.0.0.11") == owner


class AnsweringLink:
    """A packet socket on a link where one interface answers."""

    def __init__(self, *_: object) -> None:
        """Nothing to do."""

    def __enter__(self) -> AnsweringLink:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""

    def bind(self, _: object) -> None:
        """Nothing to do."""

    def send(self, _: bytes) -> None:
        """Nothing to do."""

    def settimeout(self, _: float) -> None:
        """Nothing to do."""

    def recv(self, _: int) -> bytes:
        """Answer."""
        return frame("02000000000c", "10.0.0.11")


@pytest.mark.parametrize(
    ("other", "owner"), [("02:00:00:00:00:0c", ""), ("02:00:00:00:00:0d", "02:00:00:00:00:0c")]
)
def test_an_own_interface_on_the_same_switch_is_no_other_host(
    monkeypatch: pytest.MonkeyPatch, other: str, owner: str
) -> None:
    monkeypatch.setattr(reach.socket, "socket", AnsweringLink)
    monkeypatch.setattr(reach, "PROBE_SECONDS", 0.05)
    seen: Any = {
        name: {"mac": mac}
        for name, mac in (("eth1", "02:00:00:00:00:0a"), ("eth2", other), ("lo", ""))
    }
    assert reach.find_duplicate_host("eth1", seen, "10.0.0.11") == owner


def test_an_arp_probe_claims_no_address() -> None:
    probe = reach.build_arp_probe(SOURCE, "10.0.0.11")
    assert len(probe) == 42
    assert probe[28:32] == b"\0\0\0\0"


class Neighbours:
    """What ip(8) says of the routes and neighbours of one address."""

    def __init__(self, state: str, *, via: str = "", dev: str = "eth1") -> None:
        self.state, self.dev = state, dev
        self.route = {"dst": "192.0.2.9", "dev": "eth1"} | ({"gateway": via} if via else {})
        self.probed = False

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[1:3] == ["neigh", "change"]:
            assert argv[3:] == ["192.0.2.9", "dev", self.dev, "nud", "probe"]
            self.probed = True
        if "route" in argv:
            return 0, json.dumps([self.route]), ""
        found = [{"dst": "192.0.2.9", "dev": self.dev, "state": [self.state]}]
        asked = argv[-1] if "dev" in argv else self.dev
        return 0, json.dumps(found if asked == self.dev else []), ""


def answer_without_route(argv: list[str]) -> tuple[int, str, str]:
    """No route, no neighbour."""
    return 2, "", "RTNETLINK answers: Network is unreachable"


def test_a_refusal_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(reach, "SSH_PORT", closed.getsockname()[1])
        assert reach.find_silent_peers(["127.0.0.1"], answer_without_route) == {}


def test_no_route_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "start_ssh_probe", lambda address: (None, errno.EHOSTUNREACH))
    assert reach.find_silent_peers(["192.0.2.9"], answer_without_route) == {
        "192.0.2.9": "No route to host"
    }


def test_an_unsent_probe_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "start_ssh_probe", lambda address: (None, errno.ENOBUFS))
    assert reach.find_silent_peers(["192.0.2.9"], answer_without_route) == {
        "192.0.2.9": "No buffer space available"
    }


class Bond:
    """A link that takes a frame after some that it throws away."""

    def __init__(self, lost: int, error: int = errno.ENOBUFS) -> None:
        self.lost, self.error, self.taken = lost, error, 0

    def send(self, frame: bytes) -> None:
        if self.lost:
            self.lost -= 1
            raise OSError(self.error, "")
        self.taken += 1


def test_a_bond_without_a_port_yet_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "POLL_SECONDS", 0.001)
    slow, never = Bond(3), Bond(10**9)
    assert reach.send_frame(slow, b"x")
    assert slow.taken == 1
    monkeypatch.setattr(reach, "PORT_SECONDS", 0.01)
    assert not reach.send_frame(never, b"x")
    with pytest.raises(OSError, match=str(errno.EPERM)):
        reach.send_frame(Bond(1, errno.EPERM), b"x")


@pytest.mark.parametrize(
    ("says", "silent"),
    [
        (Neighbours("REACHABLE"), False),
        (Neighbours("PERMANENT"), False),
        (Neighbours("FAILED"), True),
        (Neighbours("STALE"), True),
        # the prefix no longer contains it, or it was on another NIC: a remembered neighbor is no route
        (Neighbours("REACHABLE", via="192.0.2.1"), True),
        (Neighbours("REACHABLE", dev="eth0"), True),
    ],
)
@pytest.mark.parametrize("error", [errno.EINPROGRESS, errno.EHOSTUNREACH])
def test_a_peer_behind_its_firewall_is_known_by_its_mac(
    monkeypatch: pytest.MonkeyPatch, says: Neighbours, silent: bool, error: int
) -> None:
    """Dropped or rejected (firewalld's reject looks like a missing route), while its MAC is heard."""
    probe = socket.socket() if error == errno.EINPROGRESS else None
    monkeypatch.setattr(reach, "start_ssh_probe", lambda address: (probe, error))
    monkeypatch.setattr(reach.select, "select", lambda *_: ([], [], []))
    assert bool(reach.find_silent_peers(["192.0.2.9"], says, 0.01)) is silent


@pytest.mark.parametrize("state", ["STALE", "REACHABLE", "DELAY", "FAILED"])
def test_a_cached_neighbor_is_queried_again(state: str) -> None:
    says = Neighbours(state)
    reach.refresh_neighbours(["192.0.2.9"], says)
    assert says.probed is (state != "FAILED")
    says.probed = False
    reach.refresh_neighbours(["192.0.2.8"], says)
    assert not says.probed


MASTER, P2, P3 = "10.0.0.10", "10.0.0.12", "10.0.0.13"


@pytest.mark.parametrize(
    ("peers", "silent", "words"),
    [
        ([MASTER, P2, P3], [], []),
        ([MASTER, P2, P3], [P2], []),
        ([MASTER], [], []),
        ([P2, P3], [P3], []),
        ([], [], []),
        ([MASTER, P2, P3], [MASTER], ["the master 10.0.0.10 (no)"]),
        ([MASTER], [MASTER], ["the master 10.0.0.10 (no)"]),
        ([MASTER, P2, P3], [P2, P3], ["any other node: 10.0.0.12 (no), 10.0.0.13 (no)"]),
        (
            [MASTER, P2],
            [P2, MASTER],
            ["the master 10.0.0.10 (no)", "any other node: 10.0.0.12 (no)"],
        ),
    ],
)
def test_the_master_and_one_of_the_others_have_to_answer(
    peers: list[str], silent: list[str], words: list[str]
) -> None:
    assert reach.describe_silent_peers(MASTER, peers, dict.fromkeys(silent, "no")) == words


def test_peers_are_queried_until_enough_have_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The master is still busy with its own change; a peer that is away for good does not matter then."""
    asked: list[list[str]] = []

    def silent(addresses: list[str], run: object, seconds: float) -> dict[str, str]:
        asked.append(addresses)
        return {one: "no" for one in addresses if one == P3 or len(asked) < 3}

    monkeypatch.setattr(reach, "find_silent_peers", silent)
    monkeypatch.setattr(reach.time, "sleep", lambda _: None)
    assert reach.wait_for_peers(MASTER, [MASTER, P2, P3], answer_without_route, 60) == {P3: "no"}
    assert asked == [[MASTER, P2, P3]] * 3


def test_the_asking_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reach, "find_silent_peers", lambda addresses, *_: dict.fromkeys(addresses, "no")
    )
    assert reach.wait_for_peers(MASTER, [MASTER, P2], answer_without_route, 0) == {
        MASTER: "no",
        P2: "no",
    }
