"""Ports have run out: the data range is too small, full of TIME_WAIT, or reserved

The kernel had no free port left ({reason}). The data range is too small for the ranks and process
groups, full of TIME_WAIT from fast restarts, or covered by ip_local_reserved_ports.

**Place:** the node of this log

**Prove:** on that node: sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports && ss
-Htan state time-wait | wc -l

**Fix:** Set fullmesh_process_groups and fullmesh_data_ports for the job (16 ports per rank and
group are enough for restarts), then ./fullmesh apply -i INVENTORY.

**Source:** measured: 2*L*G+6 ports for one start, 16*L*G for back-to-back restarts (TIME_WAIT lasts
60 s)
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-110",
    __doc__,
    examples=(
        (
            "[enforce fail at .../gloo/transport/tcp/socket.cc:95] rv != -1. bind: Address "
            "already in use"
        ),
        (
            "[enforce fail at .../gloo/transport/tcp/socket.cc:142] connect: Cannot assign "
            "requested address"
        ),
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node2]:29500 "
            "(errno: 99 - Cannot assign requested address)."
        ),
        ("node1:1:2 [0] misc/socket.cc:409 NCCL WARN Call to bind failed: Address already in use"),
    ),
    patterns=(
        # NCCL asks the kernel for any port
        Pattern(
            "Call to bind failed",
            r"NCCL WARN (?P<reason>Call to bind failed ?: Address already in use)",
        ),
        Pattern(
            "bind: Address already in use",
            r"(?:device|socket|listener)\.cc:\d+\].{0,200}(?P<reason>bind: Address already in use)",
        ),
        Pattern(
            "connect: Cannot assign requested address",
            r"(?P<reason>connect: Cannot assign requested address)",
        ),
        Pattern("errno: 99", r"(?P<reason>errno: 99 - Cannot assign requested address)"),
        Pattern("failed : Cannot assign", r"(?P<reason>failed : Cannot assign requested address)"),
    ),
    explains=(Explains(("LG-201", "LG-210")),),
    weight=88,
    recorded=(
        RecordedLog(
            "ports: bind",
            (
                "[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/socket.cc:95] "
                "rv != -1. bind: Address already in use"
            ),
        ),
        RecordedLog(
            "ports: connect",
            (
                "[enforce fail at .../socket.cc:142] connect: Cannot assign requested address\n"
                "Timed out after 11 seconds waiting for clients. 4/8 clients joined."
            ),
            folded=("LG-201",),
        ),
    ),
)
