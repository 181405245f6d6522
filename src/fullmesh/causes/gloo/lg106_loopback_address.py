"""Gloo: a rank published a loopback address

A rank announced the loopback address {peer} to its peers: its host name resolves to 127.0.1.1
(Debian's default line in /etc/hosts), or GLOO_SOCKET_IFNAME is lo.

**Place:** the node that announced {peer}: a peer of the node of this log (or that node itself)

**Prove:** ./fullmesh verify -i INVENTORY (VC-102), or on every node: getent ahosts "$(hostname)"

**Fix:** ./fullmesh apply -i INVENTORY --tags network (role name_resolution), or export
GLOO_SOCKET_IFNAME with the cluster interface.

**Source:** measured, pytorch/pytorch#15592, #8664, gloo device.cc:89-141
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-106",
    __doc__,
    examples=("timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:26526$1",),
    patterns=(
        Pattern("remote=[127.", r"SO_ERROR: [^,]{1,80},? remote=\[(?P<peer>127\.[\d.]+)\]"),
        Pattern("remote=[::1]", r"SO_ERROR: [^,]{1,80},? remote=\[(?P<peer>::1)\]"),
        # torch up to 1.x
        Pattern("] connect [127.", r"pair\.cc:\d{1,5}\] connect \[(?P<peer>127\.[\d.]+)\]"),
    ),
    explains=(Explains(("LG-101", "LG-305")),),
    key=("peer",),
    weight=90,
    recorded=(
        RecordedLog(
            "gloo loopback, other errno",
            (
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out "
                "connecting: SO_ERROR: Connection timed out, remote=[127.0.1.1]:26526$1"
            ),
        ),
        RecordedLog(
            "a host name that resolves to loopback, old Gloo",
            (
                "terminate called after throwing an instance of 'gloo::IoException'\n"
                "  what():  [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:724] connect "
                "[127.0.1.1]:3210: Connection refused"
            ),
        ),
    ),
)
