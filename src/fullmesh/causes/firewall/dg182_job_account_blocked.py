"""the account that runs jobs does not get through where the probe does

The probe connects as whoever runs it; rules of nftables (meta skuid, skgid) and of routing (uidrange) may stop one
account and no other. As root the probe tries some listeners again as the account of jobs: the setting
launchers_job_user, else User= of fullmesh-job@, else whoever's ranks run.

**Prove:** runuser -u ACCOUNT -- python3 -c "import socket; socket.create_connection(('PEER', PORT), 3)"

**Fix:** Take the rule away, or let the account through to the peers.

**Source:** measured: meta skuid drops in the chain output while root's connections are open
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-182",
    __doc__,
    weight=920,
    explains=(Explains(("DG-255",), has_same_node),),
    cases=(
        CauseCase("job-account", "nft output: meta skuid of the jobs' account, drop", fields=LINK),
    ),
)
