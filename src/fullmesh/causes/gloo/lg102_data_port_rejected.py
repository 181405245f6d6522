"""Gloo: a peer's data port is rejected (No route to host, errno 113)

Gloo's connection to {peer} {port_note} was rejected at once: a firewall answers with REJECT
(firewalld's default).

**Place:** the listening end {peer}. With Gloo the higher IP always connects to the lower one, so
check the node with the lower address, not the node whose log this is

**Prove:** ./fullmesh verify -i INVENTORY (check L2 tries every link in both directions: VC-202),
and on the other node: ip neigh show {peer} (an entry proves that the host is up)

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the data ports and opens them to
the peers)

**Source:** measured: nft reject with icmpx admin-prohibited, 0.3 s, the passive side hangs,
sgl-project/sglang#3820
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.gloo.patterns import REMOTE, derive_gloo_remote
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-102",
    __doc__,
    examples=(
        (
            "RuntimeError: Gloo connectFullMesh failed with "
            "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out connecting: "
            "SO_ERROR: No route to host, remote=[10.77.0.11]:10653$1"
        ),
    ),
    patterns=(Pattern("SO_ERROR: No route to host", rf"SO_ERROR: No route to host,? {REMOTE}"),),
    explains=(Explains(("LG-101",)),),
    key=("peer",),
    derive=derive_gloo_remote,
    weight=75,
)
