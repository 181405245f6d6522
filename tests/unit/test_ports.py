"""Ranges of ports in every spelling that nodes and controllers meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.model.ports import parse_range
from fullmesh.observed.ports import (
    PortRange,
    is_port_listed,
    parse_port_entry,
    parse_port_range,
    parse_port_ranges,
)

PORTS = st.integers(0, 65535)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("50000-54095", (50000, 54095)),  # firewalld, ip_local_reserved_ports
        ("50000 - 54095", (50000, 54095)),
        ("50000:54095", (50000, 54095)),  # ufw, iptables
        ("50000\t54095\n", (50000, 54095)),  # /proc/sys/net/ipv4/ip_local_port_range
        ("29500", (29500, 29500)),
        (29500, (29500, 29500)),
        ("0", (0, 0)),
    ],
)
def test_every_spelling_is_read(text: object, ends: tuple[int, int]) -> None:
    assert parse_port_range(text) == PortRange(*ends)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "any",
        "54095-50000",
        "1-65536",
        "1-2-3",
        "-5",
        "5-",
        "\u0665\u0660",
        "1,2",
        "1/tcp",
        None,
        "99999999",
    ],
)
def test_other_values_are_no_ports(text: object) -> None:
    assert parse_port_range(text) is None


@given(st.tuples(PORTS, PORTS).map(sorted), st.tuples(PORTS, PORTS).map(sorted))
def test_ranges(one: list[int], other: list[int]) -> None:
    a, b = PortRange(*one), PortRange(*other)
    assert parse_port_range(str(a)) == a == parse_port_range(a.sysctl)
    assert len(a) == one[1] - one[0] + 1
    assert (
        a.shared(b)
        == b.shared(a)
        == len(set(range(one[0], one[1] + 1)) & set(range(other[0], other[1] + 1)))
    )
    assert all(end in a for end in one)
    assert one[1] + 1 not in a


@pytest.mark.parametrize("text", ["x", "29500", "50000", "60000-50000", "80-50000", "50000-70000"])
def test_an_invalid_range_is_refused_with_all_conditions(text: str) -> None:
    with pytest.raises(ValueError, match=rf"'{text}' is not .* within 1024-65535, lower end first"):
        parse_range(text)


def test_lists_omit_invalid_ranges() -> None:
    assert parse_port_ranges("29400,29500-29501, ,x") == [
        PortRange(29400, 29400),
        PortRange(29500, 29501),
    ]
    assert parse_port_ranges("any") == []


def test_entries_of_firewalld() -> None:
    assert parse_port_entry("50000-54095/TCP ") == (PortRange(50000, 54095), "tcp")
    assert (
        parse_port_entry("50000") is parse_port_entry("ssh/tcp") is parse_port_entry("22/") is None
    )
    entries = ["22/tcp", "50000-54095/tcp", "123/udp", "broken"]
    assert [is_port_listed(entries, port) for port in (22, 23, 50000, 54095, 123)] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert is_port_listed(entries, 123, "udp")
