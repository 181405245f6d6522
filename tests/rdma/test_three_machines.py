"""RDMA between three machines with soft-RoCE: if one of them is wrong, the other two show which.

With two machines, each of these faults can be at either end. A switch in this process joins the machines.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from devtools.lab.vm.rdma import RailSwitch
from fullmesh.verify.rdma_tries import check_rdma, list_rdma_tries

from .conftest import RdmaLab
from .test_soft_roce import NO_GUARD, Steps, guard


@dataclass(frozen=True)
class LoneFault:
    """A fault of one machine, and the one finding that it must give, which names this machine.

    Attributes:
        name: of the test.
        code: of the finding.
        node: that it names.
        make, undo: commands by machine.
        words: text in its sentence.
    """

    name: str
    code: str
    node: str
    make: Steps
    undo: Steps
    words: str


FAULTS = (
    LoneFault(
        "a rail of the third machine loses what it sends",
        "VC-224",
        "rdma3",
        ((3, "tc qdisc add dev eth2 root netem loss 100%"),),
        ((3, "tc qdisc del dev eth2 root"),),
        "lost on rxe1 of rdma3, and its peers reach each other",
    ),
    LoneFault(
        "packets of full size do not arrive at the second machine",
        "VC-225",
        "rdma2",
        guard(2, "input", "iifname eth3 udp dport 4791 meta length gt 1000 drop"),
        ((2, NO_GUARD),),
        "arrive on rxe2 of rdma2, and its peers reach each other",
    ),
    LoneFault(
        "MTU of one rail of the first machine",
        "VC-228",
        "rdma1",
        ((1, "ip link set eth3 mtu 1500"),),
        ((1, "ip link set eth3 mtu 9000"),),
        "the active RDMA MTU of rdma1 (rxe2) is below that of rdma2 (rxe2), rdma3 (rxe2)",
    ),
)
FLUSH = (1, "ip neighbour flush all"), (2, "ip neighbour flush all"), (3, "ip neighbour flush all")


def test_healthy_rails_of_three_machines_give_no_alarm(three: RdmaLab) -> None:
    evidence = three.observe()
    tries = list_rdma_tries(evidence.seen)
    names = sorted(three.machines)
    assert sorted(one.way for one in tries) == sorted(
        f"{one} (rxe{rail}) -> {other} (rxe{rail})"
        for one in names
        for other in names
        for rail in (1, 2)
        if one != other
    )
    assert [one for one in tries if not one.passed] == []
    # an emulated machine may send a packet again because it was too slow
    assert [one for one in check_rdma(evidence.seen) if one.code != "VC-230"] == []


def expect_one_finding(lab: RdmaLab, code: str, node: str, words: str) -> None:
    found = [one for one in lab.find() if one.code != "VC-230"]
    assert [(one.code, one.node) for one in found] == [(code, node)], found
    assert words in found[0].cause, found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_one_machine_with_a_fault_is_named(three: RdmaLab, fault: LoneFault) -> None:
    three.run(*fault.make)
    try:
        expect_one_finding(three, fault.code, fault.node, fault.words)
    finally:
        three.run(*fault.undo)


def test_the_machine_with_swapped_cables_is_named(three: RdmaLab, switch: RailSwitch) -> None:
    """Both cables end at the wrong port of the switch. The addresses stay."""
    switch.swap_cables(2, 1, 2)
    three.run(*FLUSH)
    try:
        expect_one_finding(three, "VC-227", "rdma3", "the cables of the rails of rdma3 are swapped")
    finally:
        switch.swap_cables(2, 1, 2)
        three.run(*FLUSH)
