"""Gloo: a peer's data port is refused (errno 111)

Gloo's connection to {peer} {port_note} was refused: a firewall answers with a TCP reset, or the
rank that listened there has ended.

**Place:** the listening end {peer}. With Gloo the higher IP always connects to the lower one, so
check the node with the lower address, not the node whose log this is

**Prove:** ./fullmesh verify -i INVENTORY (check L2 tries every link in both directions: VC-203
proves that it is the firewall). Otherwise the rank on {peer} ended first: read its log

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the data ports and opens them to
the peers)

**Source:** measured: nft reject with tcp reset, 0.04 s, facebookresearch/PyTorch-BigGraph#119
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.gloo.patterns import REMOTE, derive_gloo_remote
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-103",
    __doc__,
    examples=("timed out connecting: SO_ERROR: Connection refused, remote=[10.77.0.11]:10653$0",),
    patterns=(
        Pattern("SO_ERROR: Connection refused", rf"SO_ERROR: Connection refused,? {REMOTE}"),
    ),
    explains=(Explains(("LG-101",)),),
    key=("peer",),
    derive=derive_gloo_remote,
    weight=70,
    recorded=(
        RecordedLog(
            "gloo refused, and the passive side",
            (
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out "
                "connecting: SO_ERROR: Connection refused, remote=[10.77.0.11]:10653$0\n"
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.h:311] Connect timeout "
                "[none]"
            ),
            folded=("LG-105",),
        ),
    ),
)
