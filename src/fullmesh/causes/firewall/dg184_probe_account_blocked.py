"""only the probe's own account is stopped, the one that runs jobs gets through (warning)

Rules of nftables (meta skuid, skgid) and of routing (uidrange) may stop root, or whoever asked, and nobody else.
Where the probe is stopped it tries some listeners again as the account of jobs; if that reaches every one of them
while the probe is still stopped, jobs are not hit. Ansible, node_ssh and whatever else runs as that account between
the nodes are.

**Prove:** runuser -u ACCOUNT -- python3 -c "import socket; socket.create_connection(('PEER', PORT), 3)"

**Fix:** Take the rule away, or let root through to the peers as well.

**Source:** measured: meta skuid 0 drops in the chain postrouting while the jobs' connections are open
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SPARED, has_same_node, is_account_rule, is_return_path
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-184",
    __doc__,
    severity=WARNING,
    weight=1030,
    explains=(
        Explains(SPARED, is_return_path),
        Explains(SPARED, is_account_rule),
        Explains(("DG-255",), has_same_node),
    ),
    cases=(CauseCase("root-account", "nft output: meta skuid 0, drop", fields=LINK),),
)
