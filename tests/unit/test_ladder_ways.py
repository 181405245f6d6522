"""Queries to a node's kernel about its peers: packed questions, recorded answers, unusual ones."""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.fullmesh.probe import ways
from ansible.module_utils.fullmesh.probe.ways import ANYBODY, KernelRoutes, RouteSelector
from ansible.module_utils.fullmesh.survey.netlink import FAILED, HEAD

RULES = [
    {"priority": 0, "src": "all", "table": "local"},
    {"priority": 99, "src": "all", "uid_start": 1000, "uid_end": 1999, "action": "prohibit"},
    {"priority": 98, "src": "all", "fwmark": "0x10", "fwmask": "0xff", "table": "77"},
]
ROUTES = """blackhole 10.0.0.0/8 proto static
default via 10.77.1.1 dev eth0
prohibit 10.78.1.12 table 9 metric 3
unreachable default dev lo metric 4294967295
"""
BY_RULE = """0:	from all lookup local
99:	from all to 10.78.1.12 ipproto tcp dport 50000-50100 blackhole
"""


def set_answers(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> None:
    """iproute2 answers this."""
    monkeypatch.setattr(ways, "run_ip", lambda *words: answers.get(" ".join(words), ""))


def test_marks_and_accounts_of_rules_are_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    set_answers(monkeypatch, {"-j rule show": json.dumps(RULES)})
    assert ways.list_route_selectors(ways.read_routing_rules()) == [
        RouteSelector(0, ANYBODY),
        RouteSelector(0, 1000),
        RouteSelector(16, ANYBODY),
    ]


@pytest.mark.parametrize("text", ["", "{", '"text"', "[1]"])
def test_unreadable_rules_are_not_requested(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    set_answers(monkeypatch, {"-j rule show": text})
    assert ways.list_route_selectors(ways.read_routing_rules()) == [RouteSelector(0, ANYBODY)]


@pytest.mark.parametrize(
    ("said_", "error", "peer", "shown"),
    [
        ((ROUTES, ""), "EACCES", "10.78.1.12", "prohibit 10.78.1.12 table 9 metric 3"),
        ((ROUTES, ""), "EINVAL", "10.78.1.12", "blackhole 10.0.0.0/8 proto static"),
        ((ROUTES + "blackhole 10.78.1.0/24", ""), "EINVAL", "10.78.1.12", "blackhole 10.78.1.0/24"),
        ((ROUTES, ""), "EHOSTUNREACH", "192.0.2.1", "unreachable default dev lo metric 4294967295"),
        ((ROUTES, ""), "EXDEV", "10.78.1.12", ""),
        (
            ("", BY_RULE),
            "EINVAL",
            "10.78.1.12",
            "rule " + " ".join(BY_RULE.splitlines()[1].split()),
        ),
        (("", BY_RULE), "EACCES", "10.78.1.12", ""),
        (("", ""), "EINVAL", "10.78.1.12", ""),
    ],
)
def test_the_rejecting_node_is_named(
    monkeypatch: pytest.MonkeyPatch, said_: tuple[str, str], error: str, peer: str, shown: str
) -> None:
    routes, rules = said_
    set_answers(monkeypatch, {"-4 -o route show table all": routes, "-4 rule show": rules})
    assert ways.find_refusing_route(peer, error) == shown


# `ip -N rule show`
LOOKUPS = """0:	from all lookup 255
99:	from all fwmark 0x10 lookup 209
32765:	from 10.78.1.11 lookup 209
32766:	from all lookup 254
"""


@pytest.mark.parametrize(
    ("own", "table", "shown"),
    [
        ("10.78.1.11", 209, "rule 32765: from 10.78.1.11 lookup 209"),
        ("10.78.1.99", 209, "rule 99: from all fwmark 0x10 lookup 209"),
        ("10.78.1.11", 254, ""),
        ("10.78.1.11", 20, ""),
        ("10.78.1.11", 0, ""),
    ],
)
def test_the_rule_that_leads_to_a_table_is_named(
    monkeypatch: pytest.MonkeyPatch, own: str, table: int, shown: str
) -> None:
    set_answers(monkeypatch, {"-4 -N rule show": LOOKUPS})
    assert ways.find_leading_rule("10.78.1.12", own, table) == shown


def make_answer(**change: Any) -> ways.RouteReply:
    plain: ways.RouteReply = {
        "error": "",
        "dev": "eth1",
        "via": "",
        "source": "10.78.1.11",
        "local": False,
        "table": 254,
    }
    return {**plain, **change}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("direction", "said_", "odd"),
    [
        ("out", make_answer(), False),
        ("out", make_answer(error="EINVAL", dev=""), True),
        ("out", make_answer(dev="eth0"), True),
        ("out", make_answer(source="10.77.1.11"), True),
        ("out", make_answer(via="10.78.1.250"), True),
        ("answer", make_answer(source="10.77.1.11"), False),  # it has the address that was asked
        ("in", make_answer(local=True, dev="lo"), False),
        ("in", make_answer(local=False), True),
        ("in", make_answer(error="EXDEV"), True),
    ],
)
def test_unusual_answers(direction: Any, said_: ways.RouteReply, odd: bool) -> None:
    kernel = KernelRoutes("10.78.1.11", "lo", "10.78.1.11/24")
    kernel.interface = "eth1"
    try:
        assert kernel.odd(direction, "10.78.1.12", said_) is odd
    finally:
        kernel.close()


def test_a_next_hop_to_another_network_is_ordinary() -> None:
    kernel = KernelRoutes("10.78.1.11", "lo", "10.78.1.11/24")
    kernel.interface = "eth1"
    try:
        assert not kernel.odd("out", "10.78.2.12", make_answer(via="10.78.1.1"))
    finally:
        kernel.close()


def test_a_refusal_is_read_by_its_errno() -> None:
    raw = HEAD.pack(36, FAILED, 0, 1, 0) + struct.pack("=i", -errno.EACCES) + b"\0" * 16
    assert ways.parse_route_reply(raw, 2) == make_answer(error="EACCES", dev="", source="", table=0)


def test_the_kernel_of_this_machine_answers_for_loopback() -> None:
    kernel = KernelRoutes("127.0.0.1", "lo", "127.0.0.1/8")
    try:
        out = kernel.decide("out", "127.0.0.2", 50000, RouteSelector(0, ANYBODY))
        assert (out["error"], out["dev"]) == ("", "lo")
        taken = kernel.decide("in", "127.0.0.2", 50000, RouteSelector(0, os.getuid()))
        assert taken["local"] or taken["error"]  # a martian where the kernel is strict
    finally:
        kernel.close()


def test_failed_ports_are_queried_first() -> None:
    peer = "10.78.1.12"
    targets: Any = [
        {"node": "b", "address": peer, "port": port, "kind": "range"}
        for port in range(50000, 54000, 100)
    ]
    records: Any = [{"address": peer, "port": 53900, "verdict": "dropped"}]
    found = ways.choose_query_ports(peer, targets, records)
    assert found[0] == 53900
    assert len(found) == ways.PORTS_MOST


@pytest.mark.parametrize("broken", [OSError, struct.error])
def test_a_kernel_that_does_not_answer_is_no_error(
    monkeypatch: pytest.MonkeyPatch, broken: type[Exception]
) -> None:
    monkeypatch.setattr(ways, "read_interface_addresses", lambda: {"lo": ["127.0.0.1/8"]})

    def fails(*_: object) -> Callable[..., Any]:
        raise broken

    monkeypatch.setattr(ways, "query_all_routes", fails)
    assert ways.find_unusual_routes("127.0.0.1", [], []) == []
    assert ways.find_unusual_routes("10.9.9.9", [], []) == []
