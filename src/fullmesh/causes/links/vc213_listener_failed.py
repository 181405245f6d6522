"""A listener could not be opened

The kernel had no free port, or the node does not have the address.

**Prove:** ss -tan | wc -l && sysctl net.ipv4.ip_local_port_range

**Fix:** Use a larger range (see DG-110), or remove its reservation (see VC-108).
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-213",
    __doc__,
    cases=(
        CauseCase(
            "no-listener",
            "a range whose every port is held, so that no listener can be opened",
            by=RECORDED,
            fields=("node", "seen"),
        ),
    ),
)
