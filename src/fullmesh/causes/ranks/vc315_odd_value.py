"""A variable of jobs has a value that its file does not seem to set

A file with Windows line endings sets values that end with a carriage return. Blanks and quotes that a
reader keeps are part of the value, too. Programs reject such a number, or look for an interface of
that name. If a shell cannot read `/etc/fullmesh/env` at all, the launcher ends.

**Prove:** cat -A /etc/fullmesh/env /etc/environment

**Fix:** Remove the characters that the message names (dos2unix FILE).

**Source:** measured: torchrun rejects --nnodes with a carriage return
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-315",
    __doc__,
    weight=280,
    explains=(Explains(("VC-322", "VC-324"), has_same_node),),
    cases=(CauseCase("job-env-crlf", "/etc/fullmesh/env with Windows line endings"),),
)
