"""hang was called with an invalid waiting time or number of queries

The waiting time must be 0 s or more, and at least 1 query is needed.

**Prove:** ./fullmesh hang --help

**Fix:** Set --stalled to 0 or more, and --samples to 1 or more.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-183", __doc__)
