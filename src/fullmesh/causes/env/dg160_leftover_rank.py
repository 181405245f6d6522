"""a file gives every process the rank or the size of one job

torchrun, srun and mpirun number their processes themselves and overwrite these variables. A script that is started by
hand, or by a launcher that finds them set, takes the same rank on every node, or waits for a size that nobody has.

**Prove:** grep -rE '(RANK|WORLD_SIZE)=' /etc/environment /etc/profile.d /etc/systemd/system.conf

**Fix:** Take them out of the file; give them on the command line of the one job that needs them.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-160",
    __doc__,
    severity=WARNING,
    weight=170,
    cases=(CauseCase("rank-left", "RANK=0 in /etc/environment"),),
)
