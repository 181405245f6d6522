"""static_ip: settings."""

from __future__ import annotations

import pytest
from network_samples import Link, link
from static_ip_node import FULL

from fullmesh.roles import static_ip


@pytest.mark.parametrize(
    ("links", "wait", "codes"),
    [
        ([link()], 30, []),
        ([link(interface="")], 30, ["IP-109"]),
        ([link(), link()], 30, ["IP-110"]),
        ([link(gateway="10.0.0.1"), link(interface="eth2", gateway="10.1.0.1")], 30, ["IP-111"]),
        ([link(gateway="10.0.0.1"), link(interface="eth2", gateway="fd00::1")], 30, []),
        ([link()], 0, ["IP-112"]),
        ([link()], 601, ["IP-112"]),
    ],
)
def test_settings_that_cannot_work(links: list[Link], wait: int, codes: list[str]) -> None:
    assert [fault.code for fault in static_ip.find_static_ip_faults(links, wait)] == codes


@pytest.mark.parametrize("seconds", [9, 0, 3601])
def test_a_change_always_undoes_itself(seconds: int) -> None:
    assert [fault.code for fault in static_ip.find_static_ip_faults([link()], 30, seconds)] == [
        "IP-116"
    ]


def test_the_manifest_watches_every_address() -> None:
    assert static_ip.list_watched_addresses([FULL]) == [
        {"interface": "eth1", "address": "10.0.0.11/24"},
        {"interface": "eth1", "address": "fd00::11/64"},
    ]
