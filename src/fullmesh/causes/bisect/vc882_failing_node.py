"""collectives with one node fail, whoever its peers are (--bisect)

Every group of nodes with this one fails or does not come to an end, the others do.

**Prove:** The message of its rank, in bisect of the result

**Fix:** ./fullmesh diagnose -i INVENTORY; then the message.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-882", __doc__, weight=480, explains=(Explains(WHOLE_JOB),))
