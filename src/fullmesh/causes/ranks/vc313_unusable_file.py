"""The account of jobs may not use a file that every job needs

Python of jobs, `/etc/fullmesh/env`, `/etc/hosts` or `/etc/resolv.conf` is closed to the account of jobs: the file, or a
folder above it, has a mode, an owner or a mount option that keeps the account out. Programs that root starts work.

Fullmesh starts a login of the account: `launchers_job_user`, else `User=` of `fullmesh-job@`. Without a name it uses
`nobody`, which has the rights that every account has.

**Prove:** su -s /bin/sh ACCOUNT -c 'namei -l PATH; cat PATH >/dev/null'

**Fix:** Open the folder or file that the message names (chmod o+rX).

**Source:** path_resolution(7)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import (
    HOOKS,
    describe_account,
    is_for_all_jobs,
    list_failed_steps,
)
from fullmesh.verify.model import ClusterObservations

# A job starts without them (seen): files of names if it uses addresses, /dev/null, and the hook of fullmesh-hang.
SPARED = ("/etc/passwd", "/etc/resolv.conf", "/etc/nsswitch.conf", "/dev/null", *HOOKS)


def rule_usable_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account may use the files that every job needs."""
    for name, start, steps in list_failed_steps(seen, "use"):
        closed = {one["error"]: one for one in reversed(steps)}
        for path, first in closed.items():
            files = join_names([one["subject"] for one in steps if one["error"] == path])
            runs = path != first["subject"] or path.endswith("/python")
            yield Finding(
                "VC-313",
                "L1",
                f"{describe_account(start)} may not use {files} on {name}: {path} is closed to it",
                node=name,
                seen=f"{path}: {first['source']}",
                expected="readable for every account",
                fix=f"on {name}: chmod o+{'rx' if runs else 'r'} {shlex.quote(path)}",
                severity=ERROR
                if is_for_all_jobs(seen, name, start) and path not in SPARED
                else WARNING,
            )


CAUSE = Cause(
    "VC-313",
    __doc__,
    find=rule_usable_files,
    weight=300,
    explains=(
        Explains(("VC-302", "VC-305", "VC-310", "VC-317", "VC-322", "VC-325"), has_same_node),
    ),
    cases=(CauseCase("job-python-closed", "chmod 700 /opt/fullmesh"),),
)
