"""Cut an address on IPv6. The interface has no other family, so a lost address cuts the node off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Cut, Lab
from .test_cuts import came_back, says
from .test_firewall_cuts import shut_out, start_firewalld

MakeCut = Callable[[str], Cut]
pytestmark = [pytest.mark.rest, pytest.mark.parametrize("lab", ["ipv6"], indirect=True)]


def test_wrong_gateway(lab: Lab, cut: MakeCut) -> None:
    with cut("wrong gateway"):
        words = lab.start(lambda node: lab.link(node, gateway=lab.at("99"))).end()
    came_back(words, lab, "answers at", "s after its timer started")


def test_wrong_prefix(lab: Lab, cut: MakeCut) -> None:
    """Use a prefix so short that the controller seems to be a neighbor."""
    with cut("wrong prefix"):
        words = lab.start(
            lambda node: lab.link(node, addresses=[node.planned.replace("/64", "/8")])
        ).end()
    came_back(words, lab)


def test_address_of_a_neighbour(lab: Lab, cut: MakeCut) -> None:
    """The kernel detects the duplicate when it is set.

    Its owner is not mistaken for this node, and the change reverts.
    """
    first, second = lab.nodes
    with cut("address that a neighbour has"):
        words = lab.start(
            lambda node: lab.link(node, addresses=[second.address + "/64"]), only=first
        ).end()
        assert second.log() == ""
    says(words, f"[IP-113] {first.name}", f"{second.address}/64", "Host key verification failed")


def test_firewall_zone_without_ssh(lab: Lab, cut: MakeCut) -> None:
    shut_out(start_firewalld(lab), cut("firewall zone without ssh"))
