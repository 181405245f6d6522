"""The account of jobs cannot write to a folder that jobs write to

Gloo, NCCL and DataLoader use shared memory in `/dev/shm`. torchrun, Triton and torch's compiler write to TMPDIR and to
their cache folders. The folder is full, read-only, missing or closed to the account.

**Prove:** su -l ACCOUNT -c 'mktemp -p FOLDER'

**Fix:** Make room, remount the folder, change its mode, or correct the variable that names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import describe_account, is_for_all_jobs, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_writable_folders(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account can write where jobs write."""
    for name, start, steps in list_failed_steps(seen, "write", "cache"):
        needed = any(one["step"] == "write" for one in steps)
        words = [f"{one['subject']} ({one['error']})" for one in steps]
        places = [one["source"] for one in steps if one["source"]]
        named = f" or correct {join_names(places)}" if places else ""
        folder = shlex.quote(steps[0]["subject"])
        yield Finding(
            "VC-316",
            "L1",
            f"{describe_account(start)} cannot write to {join_names(words)} on {name}",
            node=name,
            seen=join_names(words),
            expected="writable",
            check=f"on {name}: findmnt -T {folder}; df {folder}; ls -ld {folder}",
            fix=f"on {name}: make room, remount the folder, change its mode{named}",
            severity=ERROR if needed and is_for_all_jobs(seen, name, start) else WARNING,
        )


CAUSE = Cause(
    "VC-316",
    __doc__,
    find=rule_writable_folders,
    weight=280,
    explains=(Explains(("VC-325",), has_same_node),),
    cases=(CauseCase("job-shm-closed", "chmod 755 /dev/shm"),),
)
