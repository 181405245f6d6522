"""too few file descriptors for the world size

Each rank holds a socket for every other rank and group. Too few descriptors look like missing ranks; nothing says
'open files'.

**Prove:** ulimit -n in the job's own environment

**Fix:** nofile in /etc/security/limits.d, LimitNOFILE in units.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "VC-105",
    __doc__,
    cases=(
        CauseCase("nofile", "* and root: nofile 24 in /etc/security/limits.d, or of sshd's unit"),
    ),
)
