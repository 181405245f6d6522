"""Cases of VC-103."""

from __future__ import annotations

from causes.faults import BARE, NOT_IN_PYTHON, VICTIM, Fault, at, in_python

# A container has the machine's clock, and nobody may turn that.
LATE = in_python("import time\\nreal = time.time\\ntime.time = lambda: real() - 20\\n")


FAULTS = (Fault("clock", BARE, at(VICTIM, LATE, NOT_IN_PYTHON)),)
