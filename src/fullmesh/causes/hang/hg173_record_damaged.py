"""A record is cut off or damaged

The rank ended while it wrote the file, or the file was copied before it was complete.

**Prove:** tail -c 100 FILE

**Fix:** Copy the file again, or make another dump of that rank.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-173", __doc__)
