"""Gloo: a data connection failed for another reason

Gloo's connection to {peer} {port_note} failed: {reason}.

**Place:** the listening end {peer}. With Gloo the higher IP always connects to the lower one, so
check the node with the lower address, not the node whose log this is

**Prove:** ./fullmesh verify -i INVENTORY (check L2 tries every link in both directions), or ip
route get {peer}

**Fix:** Correct the routes and addresses of the two nodes: ./fullmesh apply -i INVENTORY --tags
network.

**Source:** read: gloo helpers.h:138-228
"""

from __future__ import annotations

from fullmesh.causes.gloo.patterns import REMOTE, derive_gloo_remote
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-114",
    __doc__,
    examples=(
        "timed out connecting: SO_ERROR: Network is unreachable, remote=[10.77.0.11]:10653$0",
    ),
    patterns=(
        Pattern(
            "SO_ERROR: ",
            (
                rf"SO_ERROR: (?P<reason>(?!No route to host|Connection refused|Connection timed"
                rf" out)[^,\]]{{1,80}}),? {REMOTE}"
            ),
        ),
    ),
    key=("peer", "reason"),
    derive=derive_gloo_remote,
    weight=65,
    recorded=(
        RecordedLog(
            "gloo network unreachable",
            (
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out "
                "connecting: SO_ERROR: Network is unreachable, remote=[10.77.0.11]:10653$0"
            ),
        ),
    ),
)
