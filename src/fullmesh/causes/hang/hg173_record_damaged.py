"""a record that is cut off or damaged

The rank was ended while it wrote, or the file was copied before it was whole.

**Prove:** tail -c 100 FILE

**Fix:** Copy it again; another dump of that rank.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-173", __doc__)
