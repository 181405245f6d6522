"""The launcher does not start a job with the environment of a login

`fullmesh-torchrun` ends before it starts torchrun: one of its files is missing or damaged, a variable of the plan is
missing in `/etc/fullmesh/env`, or the login sets a variable that it refuses (`FULLMESH_WATCH`, `FULLMESH_ENV`, `PATH`
…). Fullmesh starts it as the account of jobs with `--dry-run`, which starts nothing.

**Prove:** su -l ACCOUNT -c '/opt/fullmesh/bin/fullmesh-torchrun --dry-run job.py'

**Fix:** Correct the variable or the file that the message names, or apply the roles cluster_env and launchers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import HOOKS, SHOWN, is_for_all_jobs, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_launcher(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the launcher of jobs starts with the environment of a login."""
    for name, start, steps in list_failed_steps(seen, "launch"):
        place = steps[0]["source"]
        yield Finding(
            "VC-322",
            "L1",
            f"fullmesh-torchrun does not start a job on {name}: {steps[0]['error']}"
            + (f" ({place})" if place else ""),
            node=name,
            seen=join_names([f"{one['subject']}: {one['error']}" for one in steps], SHOWN),
            expected="a launcher that starts",
            check=f"on {name}: su -l {shlex.quote(start['account'])} -c 'fullmesh-torchrun --check'",
            fix=f"on {name}: correct {place or 'the variables of the login'}, or {seen.apply('launch')}",
            severity=ERROR
            if is_for_all_jobs(seen, name, start)
            and any(one["subject"] not in HOOKS for one in steps)
            else WARNING,
        )


CAUSE = Cause(
    "VC-322",
    __doc__,
    find=rule_launcher,
    weight=290,
    explains=(Explains(("VC-320", "VC-302", "VC-324", "VC-325"), has_same_node),),
    cases=(CauseCase("job-env-line-missing", "NNODES is missing in /etc/fullmesh/env"),),
)
