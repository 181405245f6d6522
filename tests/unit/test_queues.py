"""Queues of an interface: the output of kernel 6.18, and structures of linux/pkt_sched.h and pkt_cls.h."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from ansible.module_utils.fullmesh.survey import queues
from ansible.module_utils.fullmesh.survey.netlink import (
    DONE,
    HEAD,
    dump_objects,
    pack_attribute,
    split_messages,
)
from ansible.module_utils.fullmesh.survey.queues import ROOT, InterfaceQueues, TrafficObject

# tc qdisc add dev eth1 root tbf rate 2mbit burst 32kbit latency 400ms
TBF = (
    "000000000300000000000680ffffffff0300000008000100746266002c00020028000100000100000000000090d0030000000000000000000000"
    "0000a096010000e803000000000005000c000000000030000700140001000000000000000000000000000000000018000300000000000000"
    "00000000000000000000000000002c00030000000000000000000000000000000000000000000000000000000000000000000000000000000000"
)
# tc qdisc add dev eth1 root handle 1: htb default 10
HTB = (
    "000000000300000000000100ffffffff0300000008000100687462002400020018000200110003000a0000001000000000000000000000000800"
    "0500e8030000"
)
# its classes 1:10 (ceil 40gbit, below 1:1), 1:1 (ceil 3mbit) and 1:20 (ceil 4mbit, below 1:1)
CLASSES = (
    "0000000003000000100001000100010000000000080001006874620040000200300001000001000000000000d8b805000001000000000000ffff"
    "ffff60040100000000007c92000000000000000000000c00070000f2052a01000000",
    "000000000300000001000100ffffffff00000000080001006874620034000200300001000001000000000000d8b805000001000000000000d8b8"
    "050060040100600401007c9200000700000000000000",
    "000000000300000020000100010001000000000008000100687462003400020030000100000100000000000048e80100000100000000000020a1"
    "0700400d030050c30000d43000000000000000000000",
)
MBIT = 125000  # bytes per second


def parse(text: str) -> TrafficObject:
    return queues.parse_object(bytes.fromhex(text))


def ratespec(rate: int) -> bytes:
    return struct.pack("=BBHhHI", 0, 0, 0, 0, 0, rate)


def make_queue(kind: str, options: bytes = b"", handle: int = 0x10000, parent: int = ROOT) -> Any:
    return TrafficObject(3, handle, parent, kind, options, 0)


def effects(*held: TrafficObject, classes: list[TrafficObject] | None = None) -> list[Any]:
    found = InterfaceQueues("eth1", list(held), classes or []).list_effects()
    return [(one["what"], one["rate"], one["loss"], one["delay"], one["every"]) for one in found]


def test_a_bucket_that_a_kernel_listed_is_read() -> None:
    assert effects(parse(TBF)) == [("tbf", 2.0, 0.0, 0.0, True)]


def test_classes_that_a_kernel_listed_are_read_and_only_the_default_is_for_all() -> None:
    found = effects(parse(HTB), classes=[parse(one) for one in CLASSES])
    assert found == [
        ("htb class 1:10", 40000.0, 0.0, 0.0, True),
        ("htb class 1:1", 3.0, 0.0, 0.0, True),
        ("htb class 1:20", 4.0, 0.0, 0.0, False),
    ]


def test_without_a_default_class_packets_pass_at_full_speed() -> None:
    free = parse(HTB)._replace(options=pack_attribute(2, struct.pack("=IIIII", 3, 10, 0, 0, 0)))
    assert {one[-1] for one in effects(free, classes=[parse(one) for one in CLASSES])} == {False}


NETEM = struct.pack("=IIIIII", 1000, 1000, 1 << 31, 0, 0, 0)
PARTS = 1 << 32


@pytest.mark.parametrize(
    ("kind", "options", "found"),
    [
        ("netem", NETEM, [("netem", 0.0, 0.5, 0.064, True)]),
        (
            "netem",
            NETEM.replace(struct.pack("=I", 1 << 31), b"\0" * 4)
            + pack_attribute(10, struct.pack("=q", 50_000_000))
            + pack_attribute(6, struct.pack("=IiIi", 5 * MBIT, 0, 0, 0)),
            [("netem", 5.0, 0.0, 50.0, True)],
        ),
        (
            "netem",
            struct.pack("=IIIIII", 0, 1000, 0, 0, 0, 0)
            + pack_attribute(5, pack_attribute(2, struct.pack("=IIII", PARTS // 10, 0, 0, 0)))
            + pack_attribute(8, struct.pack("=Q", 10_000 * MBIT)),
            [("netem", 10000.0, 0.1, 0.0, True)],
        ),
        ("netem", struct.pack("=IIIIII", 0, 1000, 0, 0, 0, 0), []),
        ("cake", pack_attribute(2, struct.pack("=Q", 7 * MBIT)), [("cake", 7.0, 0.0, 0.0, True)]),
        ("cake", pack_attribute(2, struct.pack("=Q", 0)), []),
        ("cake", b"", []),
        ("fq", pack_attribute(7, struct.pack("=I", 7 * MBIT)), [("fq", 7.0, 0.0, 0.0, True)]),
        ("fq", pack_attribute(7, b"\xff" * 4), []),
        ("tbf", pack_attribute(4, struct.pack("=Q", 40_000 * MBIT)), [("tbf", 40000.0, 0.0, 0.0, True)]),
        *((kind, b"", []) for kind in ("fq", "fq_codel", "pfifo_fast", "noqueue", "mq", "pfifo", "tbf", "")),
    ],
)  # fmt: skip
def test_what_a_queue_does(kind: str, options: bytes, found: list[Any]) -> None:
    assert effects(make_queue(kind, options)) == found


SLOW = pack_attribute(1, ratespec(2 * MBIT) + ratespec(0) + b"\0" * 12)


@pytest.mark.parametrize(
    ("above", "parent", "every"),
    [
        (make_queue("mq"), 0x10003, True),
        (make_queue("netem", struct.pack("=IIIIII", 0, 9, 0, 0, 0, 0)), 0x10001, True),
        (make_queue("prio"), 0x10002, True),
        (make_queue("prio"), 0x10003, False),  # a band that a filter selects
        (make_queue("ingress"), 0xFFFFFFF1, False),
    ],
)
def test_which_packets_pass_a_queue_below_another(above: Any, parent: int, every: bool) -> None:
    assert effects(above, make_queue("tbf", SLOW, 0x20000, parent)) == [
        ("tbf", 2.0, 0.0, 0.0, every)
    ]


def test_the_upper_limit_of_a_class_of_hfsc_is_read() -> None:
    options = pack_attribute(3, struct.pack("=III", 0, 0, 3 * MBIT))
    held = make_queue("hfsc", options, 0x10001)
    root = make_queue("hfsc", struct.pack("=H", 1))
    assert effects(root, classes=[held]) == [("hfsc class 1:1", 3.0, 0.0, 0.0, True)]


def police(rate: int) -> bytes:
    body = struct.pack("=IiIII", 1, 2, 0, 0, 0) + ratespec(rate) + ratespec(0) + b"\0" * 12
    return pack_attribute(1, body)


def action(kind: bytes, options: bytes) -> bytes:
    return pack_attribute(1, pack_attribute(1, kind + b"\0") + pack_attribute(2, options))


@pytest.mark.parametrize(
    ("kind", "options", "found"),
    [
        ("matchall", pack_attribute(2, action(b"police", police(2 * MBIT))), [(2.0, 0)]),
        ("u32", pack_attribute(7, action(b"police", police(3 * MBIT))), [(3.0, 0)]),
        ("u32", pack_attribute(6, police(3 * MBIT)), [(3.0, 0)]),
        ("flower", pack_attribute(3, action(b"gact", b"")), []),
        (
            "matchall",
            pack_attribute(2, action(b"mirred", pack_attribute(2, struct.pack("=IIiiiiI", *range(6), 9)))),
            [(0.0, 9)],
        ),
        ("bpf", b"", []),
    ],
)  # fmt: skip
def test_filters_that_police_or_redirect(kind: str, options: bytes, found: list[Any]) -> None:
    assert list(queues.parse_police(make_queue(kind, options))) == found


class Kernel:
    """Answers with these bytes, one receipt each."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)

    def send(self, _: bytes) -> None:
        """Take a query."""

    def recv(self, _: int) -> bytes:
        """Give the next answer."""
        return self.answers.pop(0)


def message(kind: int, body: bytes) -> bytes:
    return HEAD.pack(HEAD.size + len(body), kind, 2, 1, 0) + body


def test_a_list_ends_at_the_kernels_mark() -> None:
    kernel: Any = Kernel(message(36, b"a" * 4) + message(36, b"b" * 4), message(DONE, b"\0" * 4))
    assert dump_objects(kernel, 38, b"") == [b"aaaa", b"bbbb"]
    refusing: Any = Kernel(message(2, struct.pack("=i", -1)))
    assert dump_objects(refusing, 38, b"") == []


@pytest.mark.parametrize("raw", [b"", b"\0" * 15, b"\0" * 16, b"\xff" * 40])
def test_an_answer_that_is_cut_gives_nothing_and_ends(raw: bytes) -> None:
    assert len(split_messages(raw)) <= 1
    assert queues.survey_queues("") == []


def test_interfaces_below_the_clusters_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    below = {"bond0.5": ["lower_bond0", "mtu"], "bond0": ["lower_eth2", "lower_eth1"], "eth1": []}

    def listdir(path: str) -> list[str]:
        return below[path.rpartition("/")[2]]

    monkeypatch.setattr(queues.os, "listdir", listdir)
    below["eth2"] = ["lower_bond0"]
    assert queues.list_lower_interfaces("bond0.5") == ["bond0.5", "bond0", "eth1", "eth2"]


def test_the_queues_of_this_machine_are_counted() -> None:
    found = queues.read_queue_drops()
    assert all(name.startswith("Queue.") and count >= 0 for name, count in found.items())
    assert queues.survey_queues("lo") == []
