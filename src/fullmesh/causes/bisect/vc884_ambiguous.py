"""a collective is slow, wrong or fails, and the runs leave more than one explanation (--bisect)

Runs of groups leave more than one explanation: of two nodes none can be told from the other, since there is no third
to run with; of several that are bad only together the runs may not suffice.

**Prove:** The runs, in bisect of the result

**Fix:** Again with a node more, or ./fullmesh diagnose --bandwidth, which measures every pair.

**Source:** docs/bisect.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import WHOLE_JOB

CAUSE = Cause("VC-884", __doc__, weight=460, explains=(Explains(WHOLE_JOB),))
