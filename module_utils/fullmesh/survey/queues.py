# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the queues of the cluster's interface that limit the rate of its packets, or that lose or delay them: tc(8).

The kernel is asked over rtnetlink(7): tc is a package of its own on some systems, and prints classes as text only. The
numbers of attributes are those of linux/pkt_sched.h and linux/pkt_cls.h. Standard library only.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from .netlink import dump_objects, open_route_socket, unpack_attribute_list, unpack_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..schema.survey import ShapedQueue

GET_QDISC, GET_CLASS, GET_FILTER = 38, 42, 46
# family, padding, interface, handle, parent, info
TC = struct.Struct("=BxxxiIII")
KIND, OPTIONS, STATISTICS = 1, 2, 7
COUNTS = 3  # TCA_STATS_QUEUE: length, backlog, drops, requeues, overlimits
ROOT, INGRESS = 0xFFFFFFFF, 0xFFFFFFF1
FILTERS_IN, FILTERS_OUT = 0xFFFFFFF2, 0xFFFFFFF3
MINOR = 0xFFFF
UNLIMITED = 0xFFFFFFFF
PARTS = 4294967296.0  # a probability of netem is a share of 2**32
TICK_MS = 64e-6  # of netem's delay, on kernels that give no nanoseconds
RATE_AT = 8  # of struct tc_ratespec: the bytes before its rate
# Queues of an interface with several transmit queues: each packet goes through one child.
SPREAD = ("mq", "mqprio", "multiq", "taprio")
# Queues that pass all their packets to their only child.
ALONE = ("tbf", "netem", "red")
# The attribute with the actions of a filter, and of its police in the old form.
ACTIONS = {"matchall": (2, 0), "u32": (7, 6), "flower": (3, 0), "basic": (3, 4), "fw": (4, 2)}
PRIO_BAND = 2  # of ordinary packets in the default map of prio, as the minor number of a class
KEPT = 16
BELOW_MOST = 8  # levels of interfaces below interfaces


class TrafficObject(NamedTuple):
    """A queue, a class or a filter."""

    interface: int
    handle: int
    parent: int
    kind: str
    options: bytes
    drops: int


def parse_object(raw: bytes) -> TrafficObject:
    """Parse one object of a list."""
    _, interface, handle, parent, _ = TC.unpack_from(raw)
    held = unpack_attributes(raw[TC.size :])
    counts = unpack_attributes(held.get(STATISTICS, b"")).get(COUNTS, b"")
    drops = struct.unpack_from("=III", counts)[2] if len(counts) >= 12 else 0  # noqa: PLR2004 (three numbers)
    kind = held.get(KIND, b"").rstrip(b"\0").decode("ascii", "replace")
    return TrafficObject(interface, handle, parent, kind, held.get(OPTIONS, b""), drops)


def list_objects(
    sock: socket.socket, what: int, interface: int = 0, parent: int = 0
) -> list[TrafficObject]:
    """List the queues (of all interfaces with 0), classes or filters."""
    return [
        parse_object(raw) for raw in dump_objects(sock, what, TC.pack(0, interface, 0, parent, 0))
    ]


def read_queue_drops() -> dict[str, int]:
    """Return the drops of the interfaces' queues, such as ``Queue.eth1 tbf``."""
    found = {}
    sock = open_route_socket()
    try:
        for one in list_objects(sock, GET_QDISC):
            try:
                interface = socket.if_indextoname(one.interface)
            except OSError:
                continue
            found[f"Queue.{interface} {one.kind}"] = one.drops
    except (OSError, struct.error):
        return {}
    finally:
        sock.close()
    return found


def list_lower_interfaces(interface: str) -> list[str]:
    """Return an interface and those below it: ports of a bridge, members of a bond, the parent of a VLAN."""
    found = [interface]
    for level in range(BELOW_MOST):
        if level >= len(found):
            break
        try:
            names = os.listdir("/sys/class/net/" + found[level])
        except OSError:
            continue
        found += [n[6:] for n in sorted(names) if n.startswith("lower_") and n[6:] not in found]
    return found


def read_rate(options: dict[int, bytes], plain: tuple[int, int], large: int) -> float:
    """Return a rate in Mbit/s, 0 if there is none.

    Args:
        options: of the object.
        plain: the attribute whose struct has a tc_ratespec, and the place of that in it.
        large: the attribute with a rate of 64 bits, which is only there if it is needed.
    """
    held, wide = options.get(plain[0], b""), options.get(large, b"")
    if len(wide) >= 8:  # noqa: PLR2004 (64 bits)
        return float(struct.unpack_from("=Q", wide)[0]) * 8 / 1e6
    if len(held) < plain[1] + RATE_AT + 4:
        return 0.0
    return float(struct.unpack_from("=I", held, plain[1] + RATE_AT)[0]) * 8 / 1e6


def read_number(options: dict[int, bytes], kind: int) -> int:
    """Return the first 32 bits of an attribute, 0 without it."""
    held = options.get(kind, b"")
    return int(struct.unpack_from("=I", held)[0]) if len(held) >= 4 else 0  # noqa: PLR2004 (32 bits)


class QueueEffect(NamedTuple):
    """The effect of a queue: the rate in Mbit/s (0: no limit), the share of lost packets, the delay in ms."""

    rate: float = 0.0
    loss: float = 0.0
    delay: float = 0.0


def parse_netem(options: bytes) -> QueueEffect:
    """Parse tc-netem(8): a struct, then attributes."""
    latency, _, loss = struct.unpack_from("=III", options)
    more = unpack_attributes(options[24:])
    models = unpack_attributes(
        more.get(5, b"")
    )  # loss by a model: GI and GE, each with a probability first
    shares = (loss, *(read_number(models, kind) for kind in (1, 2)), read_number(more, 4))
    nanoseconds = more.get(10, b"")
    delay = struct.unpack_from("=q", nanoseconds)[0] / 1e6 if nanoseconds else latency * TICK_MS
    wide = more.get(8, b"")
    rate = struct.unpack_from("=Q", wide)[0] if wide else read_number(more, 6)
    return QueueEffect(float(rate) * 8 / 1e6, max(shares) / PARTS, float(delay))


def parse_effect(kind: str, raw: bytes) -> QueueEffect:
    """Return the effect of a queue or class. Fair queues without a limit have none."""
    if kind == "netem":
        return parse_netem(raw)
    options = unpack_attributes(raw)
    if kind == "tbf":
        return QueueEffect(read_rate(options, (1, 0), 4))
    if kind == "htb":  # of a class: its ceiling
        return QueueEffect(read_rate(options, (1, 12), 7))
    if kind == "hfsc":  # of a class: the second slope of its upper limit
        upper = options.get(3, b"")
        return QueueEffect(struct.unpack_from("=III", upper)[2] * 8 / 1e6 if upper else 0.0)
    if kind == "cake":
        return QueueEffect(struct.unpack_from("=Q", options[2])[0] * 8 / 1e6 if 2 in options else 0)  # noqa: PLR2004
    rate = read_number(options, 7) if kind == "fq" else 0  # of each flow
    return QueueEffect(0.0 if rate == UNLIMITED else rate * 8 / 1e6)


class InterfaceQueues:
    """The queues and classes of one interface."""

    def __init__(
        self, interface: str, queues: list[TrafficObject], classes: list[TrafficObject]
    ) -> None:
        self.interface = interface
        self.queues = {one.handle: one for one in queues}
        self.classes = {one.handle: one for one in classes}

    def get_default(self, queue: TrafficObject) -> int:
        """Return the class of packets that no filter selects, 0 if they pass without a limit."""
        options = unpack_attributes(queue.options)
        minor = 0
        if queue.kind == "htb":
            held = options.get(2, b"")
            minor = struct.unpack_from("=III", held)[2] if len(held) >= 12 else 0  # noqa: PLR2004
        elif queue.kind == "hfsc" and len(queue.options) >= 2:  # noqa: PLR2004 (its struct)
            minor = struct.unpack_from("=H", queue.options)[0]
        elif queue.kind in ("prio", "pfifo_fast"):
            minor = PRIO_BAND
        handle = queue.handle | (minor & MINOR)
        return handle if minor and (handle in self.classes or queue.kind == "prio") else 0

    def gets_all(self, parent: int) -> bool:
        """Return whether ordinary packets pass this place: the root, or a class that gets them."""
        for _ in range(BELOW_MOST):
            if parent == ROOT:
                return True
            queue = self.queues.get(parent & ~MINOR)
            if queue is None or parent == INGRESS:
                return False
            if queue.kind not in (*SPREAD, *ALONE):
                chosen = self.get_default(queue)
                while chosen and chosen != parent:
                    above = self.classes.get(chosen)
                    chosen = above.parent if above and above.parent != chosen else 0
                if not chosen:
                    return False
            parent = queue.parent
        return False

    def list_effects(self) -> Iterator[ShapedQueue]:
        """Yield the queues and classes that have an effect."""
        for one in self.queues.values():
            effect = parse_effect(one.kind, b"" if one.kind in ("htb", "hfsc") else one.options)
            yield from self.describe_effect(one.kind, effect, self.gets_all(one.parent))
        for one in self.classes.values():
            name = f"{one.kind} class {one.handle >> 16:x}:{one.handle & MINOR:x}"
            if one.kind in ("htb", "hfsc"):
                effect = parse_effect(one.kind, one.options)
                yield from self.describe_effect(name, effect, self.gets_all(one.handle))

    def describe_effect(self, what: str, effect: QueueEffect, every: bool) -> Iterator[ShapedQueue]:
        """Yield the record of an effect, if there is one."""
        if any(effect):
            yield {
                "card": self.interface,
                "side": "egress",
                "what": what,
                "rate": round(effect.rate, 3),
                "loss": round(effect.loss, 4),
                "delay": round(effect.delay, 3),
                "every": every,
            }


def parse_police(filter_: TrafficObject) -> Iterator[tuple[float, int]]:
    """Yield for each action of a filter the rate in Mbit/s, and the interface to which it redirects packets."""
    held = unpack_attributes(filter_.options)
    actions, old = ACTIONS.get(filter_.kind, (0, 0))
    for _, raw in unpack_attribute_list(held.get(actions, b"")):
        action = unpack_attributes(raw)
        options = unpack_attributes(action.get(2, b""))
        if action.get(1, b"").startswith(b"police"):
            yield read_rate(options, (1, 20), 8), 0
        elif action.get(1, b"").startswith(b"mirred") and len(options.get(2, b"")) >= 28:  # noqa: PLR2004
            yield 0.0, struct.unpack_from("=I", options[2], 24)[0]
    if old and old in held:
        yield read_rate(unpack_attributes(held[old]), (1, 20), 8), 0


def list_policers(
    sock: socket.socket, interface: str, queues: list[TrafficObject]
) -> tuple[list[ShapedQueue], set[int]]:
    """Return the filters of an interface that limit the rate, and the interfaces to which they redirect packets."""
    places = {}
    for one in queues:
        if one.kind in ("ingress", "clsact"):
            places[FILTERS_IN] = "ingress"
        if one.kind == "clsact":
            places[FILTERS_OUT] = "egress"
    found: list[ShapedQueue] = []
    others = set()
    for parent, side in places.items():
        for one in list_objects(sock, GET_FILTER, socket.if_nametoindex(interface), parent):
            for rate, other in parse_police(one):
                if other and side == "ingress":
                    others.add(other)
                if rate:
                    found.append(
                        {
                            "card": interface,
                            "side": "ingress" if side == "ingress" else "egress",
                            "what": f"police in a filter {one.kind}",
                            "rate": round(rate, 3),
                            "loss": 0.0,
                            "delay": 0.0,
                            "every": one.kind == "matchall",
                        }
                    )
    return found, others


def survey_queues(interface: str) -> list[ShapedQueue]:
    """Return the queues that limit, lose or delay packets of an interface, or of those below it."""
    if not interface:
        return []
    sock = open_route_socket()
    try:
        return collect_queues(sock, interface)
    except struct.error as error:
        raise ValueError(f"the kernel's answer cannot be read: {error}") from error
    finally:
        sock.close()


def collect_queues(sock: socket.socket, interface: str) -> list[ShapedQueue]:
    """Query the kernel for one interface."""
    held: dict[int, list[TrafficObject]] = {}
    for one in list_objects(sock, GET_QDISC):
        held.setdefault(one.interface, []).append(one)
    todo = [(name, False) for name in list_lower_interfaces(interface)]
    found: list[ShapedQueue] = []
    for name, redirected in todo:
        index = socket.if_nametoindex(name)
        queues = held.get(index, [])
        classful = any(one.kind in ("htb", "hfsc") for one in queues)
        classes = list_objects(sock, GET_CLASS, index) if classful else []
        for effect in InterfaceQueues(name, queues, classes).list_effects():
            found.append({**effect, "side": "ingress"} if redirected else effect)
        if not redirected:
            policers, others = list_policers(sock, name, queues)
            found += policers
            todo += [(socket.if_indextoname(other), True) for other in sorted(others)]
    return found[:KEPT]
