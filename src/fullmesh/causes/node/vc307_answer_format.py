"""a module's answer has another form than this version reads

Modules and rules are of one version and agree on every field; a module of another version answered.

**Prove:** ansible-config dump | grep -E 'MODULE_(PATH|UTILS_PATH)'

**Fix:** Take the other one out of the path, or run from a clean checkout.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-307", __doc__)
