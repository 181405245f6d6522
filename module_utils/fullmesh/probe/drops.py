# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Record why this machine's kernel dropped packets during a probe, with the tracepoint skb:kfree_skb.

Uses its own tracefs instance, which does not disturb other tracing and is removed afterwards. It reports nothing
without tracefs (a container), without permission, or if the event has no reason (kernels before 5.17).

Runs on nodes: standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..schema.ladder import PacketDrop

PLACES = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
EVENT = "events/skb/kfree_skb"
PREFIX = "fullmesh-"
# Reasons up to 2 have no meaning (NOT_SPECIFIED and before). IPv4 and IPv6 only.
FILTER = "reason > 2 && (protocol == 2048 || protocol == 34525)"
BUFFER_KB = (
    "128"  # for each CPU: a line takes about 40 bytes, and the oldest lines are dropped first
)
READ_MOST = 4 << 20
SHOWN = 20
# As the kernel prints it: kfree_skb: skbaddr=... location=nft_do_chain+0x3e8/0x610 reason: NETFILTER_DROP
LINE = re.compile(r"kfree_skb: .{0,200}?location=([\w.]+)\S* reason: ([A-Z0-9_]+)")


def parse_drops(text: str) -> list[PacketDrop]:
    """Return a trace's drop reasons with the kernel functions and counts, the most frequent first."""
    counted: dict[tuple[str, str], int] = {}
    for place, reason in LINE.findall(text):
        counted[(reason, place)] = counted.get((reason, place), 0) + 1
    rows = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return [{"reason": key[0], "place": key[1], "count": count} for key, count in rows[:SHOWN]]


def write_trace_file(path: str, text: str) -> None:
    """Write to one of the kernel's files."""
    with open(path, "w") as stream:
        stream.write(text)


def has_drop_reasons(root: str) -> bool:
    """Return whether this kernel's event has a reason."""
    try:
        with open(os.path.join(root, EVENT, "format")) as stream:
            return "skb_drop_reason" in stream.read()
    except OSError:
        return False


def find_stale_instances(root: str) -> Iterator[str]:
    """Yield Fullmesh's instances whose process was killed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(os.path.join(root, "instances")):
            owner = name[len(PREFIX) :]
            if (
                name.startswith(PREFIX)
                and owner.isdecimal()
                and not os.path.exists("/proc/" + owner)
            ):
                yield os.path.join(root, "instances", name)


class DropTracer:
    """Traces dropped packets from its creation until `end`. Does nothing if that is not possible."""

    def __init__(self, roots: tuple[str, ...] = PLACES) -> None:
        self.instance = ""
        root = next((root for root in roots if has_drop_reasons(root)), "")
        if not root:
            return
        for old in find_stale_instances(root):
            remove_trace_instance(old)
        made = os.path.join(root, "instances", PREFIX + str(os.getpid()))
        try:
            os.mkdir(made, 0o700)
        except OSError:
            return
        try:
            write_trace_file(os.path.join(made, "buffer_size_kb"), BUFFER_KB)
            write_trace_file(os.path.join(made, EVENT, "filter"), FILTER)
            write_trace_file(os.path.join(made, EVENT, "enable"), "1")
        except OSError:
            remove_trace_instance(made)
            return
        self.instance = made

    def end(self) -> list[PacketDrop] | None:
        """Return the packets dropped since the start with their reasons, or None without a trace.

        Removes the instance.
        """
        if not self.instance:
            return None
        text = ""
        with contextlib.suppress(OSError):
            write_trace_file(os.path.join(self.instance, EVENT, "enable"), "0")
            with open(os.path.join(self.instance, "trace"), errors="replace") as stream:
                text = stream.read(READ_MOST)
        remove_trace_instance(self.instance)
        self.instance = ""
        return parse_drops(text)


def remove_trace_instance(instance: str) -> None:
    """Remove an instance. The kernel then ends its events."""
    with contextlib.suppress(OSError):
        write_trace_file(os.path.join(instance, EVENT, "enable"), "0")
    with contextlib.suppress(OSError):
        os.rmdir(instance)
