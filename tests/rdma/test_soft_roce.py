"""RDMA between two machines with soft-RoCE: healthy rails give no alarm, and each fault is found first and named.

A real kernel, real libibverbs and a real device (rdma_rxe) on each machine. Hardware has its own firmware and switches,
which these machines cannot show.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hang_records
import pytest

from devtools.lab.vm.rdma import RdmaMachine
from fullmesh import contract
from fullmesh.causes.hang.job import HangFinding
from fullmesh.causes.rdma.dg199_slow_rail import rule_slow_rails
from fullmesh.hang.ask import name_rails
from fullmesh.hang.judge import judge_job
from fullmesh.observed.hang import Rank
from fullmesh.verify.rdma_tries import check_rdma, list_rdma_tries, map_rdma_rates

from .conftest import PROGRAM, PROGRAMS, RdmaLab

Steps = tuple[tuple[int, str], ...]
LIBRARY = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"
PROVIDER = "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
GUARD = "nft add table inet guard; nft add chain inet guard {hook} '{{ type filter hook {hook} priority 0; }}'; "
NO_GUARD = "nft delete table inet guard"


@dataclass(frozen=True)
class RdmaFault:
    """A fault, and the first finding that it must give.

    Attributes:
        name: of the test.
        code: of the finding.
        node: that it names, "" for either.
        make, undo: commands by machine.
        words: text in its sentence or in the value seen.
    """

    name: str
    code: str
    node: str
    make: Steps
    undo: Steps
    words: str = ""


def guard(number: int, hook: str, rule: str) -> Steps:
    """A rule of the machine's own packet filter, which soft-RoCE passes."""
    return ((number, GUARD.format(hook=hook) + f"nft add rule inet guard {hook} {rule}"),)


FAULTS = (
    RdmaFault(
        "UDP 4791 dropped at the receiver",
        "DG-196",
        "rdma2",
        guard(2, "input", "udp dport 4791 drop"),
        ((2, NO_GUARD),),
        "udp dport 4791 drop",
    ),
    RdmaFault(
        "UDP 4791 dropped at the sender of one rail",
        "DG-196",
        "rdma1",
        guard(1, "output", "oifname eth3 udp dport 4791 drop"),
        ((1, NO_GUARD),),
        "rxe2",
    ),
    RdmaFault(
        "one rail loses all packets of one direction",
        "VC-224",
        "",
        ((1, "tc qdisc add dev eth2 root netem loss 100%"),),
        ((1, "tc qdisc del dev eth2 root"),),
    ),
    RdmaFault(
        "stale neighbour entry",
        "VC-224",
        "rdma1",
        ((1, "ip neighbour replace 10.82.0.12 lladdr 02:00:00:00:00:99 dev eth3 nud permanent"),),
        ((1, "ip neighbour del 10.82.0.12 dev eth3"),),
        "rxe2",
    ),
    RdmaFault(
        "packets of full size lost",
        "VC-225",
        "",
        guard(2, "input", "udp dport 4791 meta length gt 1000 drop"),
        ((2, NO_GUARD),),
        "8 messages",
    ),
    RdmaFault(
        "MTU of one rail on one node",
        "VC-228",
        "rdma2",
        ((2, "ip link set eth3 mtu 1500"),),
        ((2, "ip link set eth3 mtu 9000"),),
        "1024 bytes on rdma2",
    ),
    RdmaFault(
        "a rail without an address",
        "VC-221",
        "rdma2",
        ((2, "ip address flush dev eth3 scope global"),),
        ((2, "ip address add 10.82.0.12/24 dev eth3"),),
        "rxe2",
    ),
    RdmaFault(
        "no answer to ARP on one rail",
        "VC-223",
        "rdma1",
        ((1, "ip neighbour flush dev eth3"), (2, "ip link set eth3 arp off")),
        ((2, "ip link set eth3 arp on"),),
        "rxe2",
    ),
    RdmaFault(
        "swapped cables",
        "VC-227",
        "rdma1",
        (
            (
                2,
                "ip address flush dev eth2 scope global; ip address flush dev eth3 scope global; "
                "ip address add 10.82.0.12/24 dev eth2; ip address add 10.81.0.12/24 dev eth3",
            ),
        ),
        (
            (
                2,
                "ip address flush dev eth2 scope global; ip address flush dev eth3 scope global; "
                "ip address add 10.81.0.12/24 dev eth2; ip address add 10.82.0.12/24 dev eth3",
            ),
        ),
    ),
    RdmaFault(
        "one device down",
        "DG-249",
        "rdma2",
        ((2, "ip link set eth3 down"),),
        ((2, "ip link set eth3 up"),),
        "rxe2",
    ),
    RdmaFault(
        "no libibverbs",
        "VC-222",
        "rdma2",
        ((2, f"mv {LIBRARY} {LIBRARY}.away"),),
        ((2, f"mv {LIBRARY}.away {LIBRARY}"),),
        "library",
    ),
    RdmaFault(
        "no provider for the device",
        "VC-222",
        "rdma1",
        ((1, f"mv {PROVIDER} {PROVIDER}.away"),),
        ((1, f"mv {PROVIDER}.away {PROVIDER}"),),
        "device",
    ),
    RdmaFault(
        "no device file",
        "VC-222",
        "rdma2",
        ((2, "mv /dev/infiniband/uverbs1 /dev/uverbs1.away"),),
        ((2, "mv /dev/uverbs1.away /dev/infiniband/uverbs1"),),
    ),
)


def test_healthy_rails_give_no_alarm(lab: RdmaLab) -> None:
    evidence = lab.observe()
    tries = list_rdma_tries(evidence.seen)
    assert sorted((one.way, one.passed) for one in tries) == [
        ("rdma1 (rxe1) -> rdma2 (rxe1)", True),
        ("rdma1 (rxe2) -> rdma2 (rxe2)", True),
        ("rdma2 (rxe1) -> rdma1 (rxe1)", True),
        ("rdma2 (rxe2) -> rdma1 (rxe2)", True),
    ], tries
    assert all(one.said["peer"]["count"] == one.said["own"]["count"] == 10 for one in tries)
    errors = [finding for finding in check_rdma(evidence.seen) if finding.code != "VC-230"]
    assert errors == []  # an emulated machine may send a packet again because it was too slow


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_found_first(lab: RdmaLab, fault: RdmaFault) -> None:
    lab.run(*fault.make)
    try:
        found = lab.find()
    finally:
        lab.run(*fault.undo)
    assert [one.code for one in found[:1]] == [fault.code], found
    assert fault.node in ("", found[0].node), found
    assert fault.words in f"{found[0].cause} {found[0].seen}", found


LOCKED = """
import os, resource, sys
sys.path.insert(0, {path!r})
from fullmesh.probe import rdma
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
os.setgid(65534); os.setuid(65534)
try:
    rdma.make_connection("rxe1", 1, "0000:0000:0000:0000:0000:ffff:0a51:000b")
except Exception as error:
    print(*rdma.describe_failure(error))
"""


COUNTED = """
import sys
sys.path.insert(0, {path!r})
from fullmesh.facts.nic_counters import read_statistics
print(read_statistics("eth2")["rx_queue_0_packets"])
"""


def test_the_counters_of_a_nic_are_read_without_ethtool(lab: RdmaLab) -> None:
    """The NIC is QEMU's virtio-net, and the machine does not have the program."""
    machine = lab.machines["rdma1"]
    program = COUNTED.format(path=PROGRAM).encode()
    assert machine.run_command("command -v ethtool", check=False) == ""
    before = int(machine.run_command("python3 -", program))
    lab.observe()
    assert int(machine.run_command("python3 -", program)) > before


def test_too_little_lockable_memory_is_named(lab: RdmaLab) -> None:
    """Root has no such limit, so this try runs as another account."""
    said = lab.machines["rdma1"].run_command("python3 -", LOCKED.format(path=PROGRAM).encode())
    assert said == "mr ENOMEM"


def test_a_rail_that_no_job_uses_is_not_tried(lab: RdmaLab) -> None:
    lab.run(*guard(2, "input", "iifname eth3 udp dport 4791 drop"))
    try:
        found = lab.find({"NCCL_IB_HCA": "=rxe1"})
    finally:
        lab.run((2, NO_GUARD))
    assert [one for one in found if one.code != "VC-230"] == []


def test_the_rate_of_each_rail_is_measured(lab: RdmaLab) -> None:
    """One rail is limited to 20 Mbit/s in one direction. Soft-RoCE has no port speed, so no rate is an alarm."""
    lab.run((1, "tc qdisc add dev eth3 root netem rate 20mbit limit 10000"))
    try:
        evidence = lab.observe(rate=True)
    finally:
        lab.run((1, "tc qdisc del dev eth3 root"))
    rates = map_rdma_rates(evidence.seen)
    assert len(rates) == 4
    limited = rates.pop(("rdma1", "rdma2", "rxe2", "rxe2"))
    assert 5 < limited < 22
    assert min(rates.values()) > limited
    assert list(rule_slow_rails(evidence)) == []


GIDS = tuple(f"0000:0000:0000:0000:0000:ffff:0a52:000{last}" for last in "bc")
RANK = """
import sys
sys.path.insert(0, {path!r})
from fullmesh.probe import rdma
from fullmesh.probe.verbs import PeerQueue
made, index = rdma.make_connection("rxe2", 1, {gids[0]!r})
made.connect(index, 1, PeerQueue({gids[1]!r}, 0, 0xabcdef, 1, 3))  # the peer has no such queue
print("ready", flush=True)
for line in sys.stdin:
    made.post_message(64)
"""
COLLECT = """
import json, sys
sys.path.insert(0, {path!r})
import fullmesh_hang_answer, fullmesh_hang_look, fullmesh_hang_rdma
# an emulated machine is slow
fullmesh_hang_answer.ANSWER_SECONDS = fullmesh_hang_rdma.SECONDS = 60.0
fullmesh_hang_look.FIND_SECONDS = fullmesh_hang_look.READ_SECONDS = 60.0
print(json.dumps(fullmesh_hang_look.read_node_ranks("rdma1")["ranks"]))
"""

PLAN: Any = {"rails": [{"name": "rail1", "members": {"rdma1": "10.82.0.11"}}]}


@pytest.fixture
def rank(lab: RdmaLab) -> Iterator[subprocess.Popen[bytes]]:
    """A rank on rdma1 with a connection to rdma2 on the second rail, and the hook."""
    machine = lab.machines["rdma1"]
    program = RANK.format(path=PROGRAM, gids=GIDS)
    machine.run_command("cat > /tmp/rank.py", program.encode())
    job = f"RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.80.0.11 MASTER_PORT=29500 PYTHONPATH={PROGRAMS}/hook"
    command = machine.build_ssh(f"{job} exec python3 /tmp/rank.py")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.stdin.close()


def collect_rank(machine: RdmaMachine) -> Rank:
    """Return the rank as `hang` collects it on the machine."""
    said = machine.run_command("python3 -", COLLECT.format(path=PROGRAMS).encode())
    (found,) = json.loads(said)
    assert found["rdma"][0]["start"], found
    return contract.convert_value(Rank, found)


def judge_stalled_job(*seen: Rank) -> HangFinding:
    """Judge a job that is stuck in a collective, with the RDMA ports of a real rank."""
    samples = [hang_records.load("network")[0] for _ in seen]
    for sample, one in zip(samples, seen, strict=True):
        sample[0].update(host="rdma1", rdma=one["rdma"])
        name_rails(PLAN, sample)
    (finding,) = judge_job(samples)
    return finding


def test_an_address_that_is_added_again_during_a_job_has_another_gid_index(
    lab: RdmaLab, rank: subprocess.Popen[bytes]
) -> None:
    machine = lab.machines["rdma1"]
    assert judge_stalled_job(collect_rank(machine)).code == "HG-161"
    machine.run_command("ip address del 10.82.0.11/24 dev eth3")
    try:
        gone = judge_stalled_job(collect_rank(machine))
    finally:
        machine.run_command("ip address add 10.82.0.11/24 dev eth3")
    moved = judge_stalled_job(collect_rank(machine))
    assert rank.poll() is None
    start, now = (
        one.partition(" ")[0]
        for one in moved.cause.partition("moved from entry ")[2].split(" to ", 1)
    )
    assert start != now, moved
    for finding, what in (
        (gone, f"has left entry {start}"),
        (moved, f"moved from entry {start} to {now}"),
    ):
        assert finding.code == "HG-165", finding
        assert f"10.82.0.11 of rail1 (rxe2, eth3) on rdma1 {what}" in finding.cause


def test_a_rail_whose_packets_are_not_acknowledged_is_named(
    lab: RdmaLab, rank: subprocess.Popen[bytes]
) -> None:
    machine = lab.machines["rdma1"]
    before = collect_rank(machine)
    assert rank.stdin
    rank.stdin.write(b"\n")
    rank.stdin.flush()
    counter = "/sys/class/infiniband/rxe2/ports/1/hw_counters/completer_retry_err"
    known = before["rdma"][0]["now"]["errors"]["completer_retry_err"]
    grown = f"[ $(cat {counter}) -gt {known} ]"
    machine.run_command(f"for i in $(seq 60); do {grown} && exit; sleep 1; done; exit 1")
    finding = judge_stalled_job(before, collect_rank(machine))
    assert "packets that rdma1 sends on rail1 (rxe2, eth3) are not acknowledged" in finding.cause
    assert "completer_retry_err +" in finding.seen
