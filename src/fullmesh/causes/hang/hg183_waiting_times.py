"""hang was called with waiting times or a number of looks that are none

A look back of less than no seconds, or no look at all, tells nothing.

**Prove:** ./fullmesh hang --help

**Fix:** --stalled 0 or more, --looks 1 or more.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-183", __doc__)
