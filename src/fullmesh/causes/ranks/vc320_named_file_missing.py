"""A variable names a file that jobs cannot read

NCCL ignores a topology, graph or tuner file that it cannot open, or ends. The file is missing, or is closed to the
account of jobs.

**Prove:** su -l ACCOUNT -c 'env | grep -E "NCCL_.*FILE"'

**Fix:** Create the file, or remove the variable.

**Source:** NCCL, graph/xml.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-320",
    __doc__,
    severity=WARNING,
    weight=280,
    cases=(
        CauseCase("job-topology-missing", "NCCL_TOPO_FILE=/etc/nccl/gone.xml in /etc/environment"),
    ),
)
