"""A rank may open too few files for the world size

Each rank holds a socket for every other rank and group. If the limit is too low, ranks seem to be
missing, and no message mentions open files.

**Prove:** ulimit -n

**Fix:** Raise nofile in /etc/security/limits.d, and LimitNOFILE in units.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-105",
    __doc__,
    explains=(Explains(("VC-323",), has_same_node),),
    cases=(
        CauseCase("nofile", "* and root: nofile 24 in /etc/security/limits.d, or of sshd's unit"),
    ),
)
