"""The answer of a module has a format that this version does not read

Modules and rules of one Fullmesh version agree on every field. Ansible ran a module of another
version.

**Prove:** ansible-config dump | grep -E 'MODULE_(PATH|UTILS_PATH)'

**Fix:** Remove the other version from the path, or run from a clean checkout.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-307", __doc__)
