"""Gloo: packets to a peer's data port are dropped (errno 110)

Gloo's connection to {peer} {port_note} got no answer at all: something drops the packets.

**Place:** the listening end {peer}. With Gloo the higher IP always connects to the lower one, so
check the node with the lower address, not the node whose log this is

**Prove:** ./fullmesh verify -i INVENTORY (check L2 tries every link in both directions: VC-201. If
the drop counter on {peer} stays 0, a security group or switch drops them, not the node's own
firewall)

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the data ports and opens them to
the peers). In a cloud, also open the data range in the security group, in both directions.

**Source:** measured: nft drop, active side ends after 539 s, passive side still hangs at 1900 s,
pytorch/pytorch#44544
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.gloo.patterns import REMOTE, derive_gloo_remote
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-104",
    __doc__,
    examples=("timed out connecting: SO_ERROR: Connection timed out, remote=[10.77.0.11]:10653$0",),
    patterns=(
        Pattern("SO_ERROR: Connection timed out", rf"SO_ERROR: Connection timed out,? {REMOTE}"),
    ),
    explains=(Explains(("LG-101",)),),
    key=("peer",),
    derive=derive_gloo_remote,
    weight=74,
    recorded=(
        RecordedLog(
            "gloo drop",
            (
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out "
                "connecting: SO_ERROR: Connection timed out, remote=[fd78::11]:10653$0"
            ),
        ),
    ),
)
