"""A firewall dropped the job's packets and logged it

The firewall of this node blocked TCP from {peer} to {target} port {port}.

**Place:** {target} (interface {interface})

**Prove:** on that node, run `nft list ruleset` and `firewall-cmd --get-active-zones`, or ./fullmesh
verify -i INVENTORY (VC-201, VC-202)

**Fix:** ./fullmesh apply -i INVENTORY --tags firewall. Rules of another table still drop packets
that firewalld accepts.

**Source:** firewalld's LogDenied, ufw's log, measured: accept in one base chain does not override
drop in another
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.log_ports import describe_port_range
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog
from fullmesh.observed.ports import HIGHEST_PORT


def derive_blocked_port(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Return the fields of a packet that a firewall logged."""
    port = int(fields["port"])
    return (
        {**fields, "range_note": describe_port_range(port, options)}
        if port <= HIGHEST_PORT
        else None
    )


CAUSE = LogCause(
    "LG-508",
    __doc__,
    examples=(
        (
            "kernel: filter_IN_public_REJECT: IN=eth1 OUT= MAC=00 SRC=10.77.0.12 DST=10.77.0.11 "
            "LEN=60 PROTO=TCP SPT=41000 DPT=50123 WINDOW=64240"
        ),
        (
            "kernel: [UFW BLOCK] IN=eth1 OUT= MAC=00 SRC=10.77.0.12 DST=10.77.0.11 LEN=60 "
            "PROTO=TCP SPT=41000 DPT=29500"
        ),
    ),
    patterns=(
        Pattern(
            "PROTO=TCP",
            r"(?:REJECT|DROP|BLOCK|DENY|denied)[^=]{0,40}IN=(?P<interface>\S{1,16})"
            r" .{0,200}?SRC=(?P<peer>\S{1,45}) DST=(?P<target>\S{1,45})"
            r" .{0,200}?PROTO=TCP .{0,60}?DPT=(?P<port>\d{1,5})",
        ),
    ),
    explains=(
        Explains(
            (
                "LG-101",
                "LG-102",
                "LG-103",
                "LG-104",
                "LG-202",
                "LG-203",
                "LG-205",
                "LG-402",
                "LG-403",
                "LG-404",
            )
        ),
    ),
    only_with=(
        "LG-101",
        "LG-102",
        "LG-103",
        "LG-104",
        "LG-105",
        "LG-201",
        "LG-202",
        "LG-203",
        "LG-205",
        "LG-402",
        "LG-403",
        "LG-404",
        "LG-405",
    ),
    key=("peer", "target"),
    derive=derive_blocked_port,
    weight=93,
    recorded=(
        RecordedLog(
            "firewall log",
            (
                "kernel: filter_IN_public_REJECT: IN=eth1 OUT= MAC=00 SRC=10.77.0.12 "
                "DST=10.77.0.11 LEN=60 PROTO=TCP SPT=41000 DPT=50123 WINDOW=64240\n"
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out "
                "connecting: SO_ERROR: No route to host, remote=[10.77.0.11]:10653$1"
            ),
            folded=("LG-102",),
        ),
    ),
)
