"""the page of a job cannot be written

`--html FILE` names a place that cannot be written: no such folder, no room, no rights.

**Prove:** ls -ld of that folder; df

**Fix:** Another FILE. The findings come without it as well.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-185", __doc__)
