"""The launcher does not start a job with the environment of a login

`fullmesh-torchrun` ends before it starts torchrun: one of its files is missing, a variable of the plan is missing in
`/etc/fullmesh/env`, or the login sets a variable that it refuses (`FULLMESH_WATCH`, `FULLMESH_ENV`, `PATH` …). Fullmesh
starts it as the account of jobs with `--dry-run`, which starts nothing.

**Prove:** su -l ACCOUNT -c '/opt/fullmesh/bin/fullmesh-torchrun --dry-run job.py'

**Fix:** Correct the variable or the file that the message names, or apply the roles cluster_env and launchers.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-322",
    __doc__,
    weight=290,
    explains=(Explains(("VC-320", "VC-302", "VC-324"), has_same_node),),
    cases=(CauseCase("job-env-line-missing", "NNODES is missing in /etc/fullmesh/env"),),
)
