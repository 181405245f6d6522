"""The account of the ranks cannot read a file that jobs need

The ranks run as an account without rights, as jobs of ordinary users do. It cannot read `/etc/fullmesh/env` or a
file of the virtual environment.

**Prove:** namei -l /etc/fullmesh/env

**Fix:** Open the folder or file that the message names (chmod o+rX).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-310", __doc__)
