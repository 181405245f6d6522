"""The environment file of jobs has a line that cannot be read

A value in the file that jobs take their environment from has a quotation mark too few. The message names the
variable.

**Prove:** cat -A /etc/fullmesh/env

**Fix:** Correct the line.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-312", __doc__)
