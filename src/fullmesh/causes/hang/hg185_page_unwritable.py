"""The page of a job cannot be written

`--html FILE` names a place that cannot be written: the folder does not exist, the disk is full, or
the account has no permission.

**Prove:** ls -ld FOLDER && df FOLDER

**Fix:** Choose another FILE. The findings are printed in any case.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-185", __doc__)
