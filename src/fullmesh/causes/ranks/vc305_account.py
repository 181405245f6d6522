"""The unprivileged account of the ranks is missing or cannot run torch's Python

The ranks run as an account without rights. A container does not map that account's numbers, or only
root may run the interpreter.

**Prove:** cat /proc/self/uid_map && namei -l /opt/fullmesh/venv/bin/python

**Fix:** Map 61184 to 65519 into the container, and let all accounts enter the folders of the
interpreter (chmod o+rx).
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-305", __doc__)
