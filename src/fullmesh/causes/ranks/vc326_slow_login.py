"""A login of the account of jobs takes longer than 2 s

A profile file waits: for a file system, a license or name server, `module load`, or a prompt. Each rank that ssh, pdsh
or mpirun starts waits with it. The other steps of a login are then unknown, because Fullmesh ends it after 2 s.

**Prove:** time su -l ACCOUNT -c true

**Fix:** Make the command that the message names faster, or run it only in interactive shells (`case $- in *i*)`).

**Source:** bash(1), INVOCATION
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.job_start import list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_slow_login(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a login of the account ends within 2 s."""
    for name, start, steps in list_failed_steps(seen, "slow"):
        command, place = steps[0]["subject"], steps[0]["source"]
        yield Finding(
            "VC-326",
            "L1",
            f"a login of {start['account']} on {name} takes longer than 2 s: it waits for `{command}` ({place})",
            node=name,
            seen=f"{command} in {place}",
            expected="a login that ends within 2 s",
            check=f"on {name}: time su -l {shlex.quote(start['account'])} -c true",
            fix=f"on {name}: change {place}, or run it only in interactive shells",
            severity=WARNING,
        )


CAUSE = Cause(
    "VC-326",
    __doc__,
    find=rule_slow_login,
    severity=WARNING,
    weight=285,
    cases=(CauseCase("job-profile-slow", "sleep 90 in a profile file", severity=WARNING),),
)
