"""A line of the jobs' environment file cannot be parsed

Jobs take their environment from this file, and a value in it lacks a closing quotation mark. The
message names the variable.

**Prove:** cat -A /etc/fullmesh/env

**Fix:** Correct the line.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-312", __doc__)
