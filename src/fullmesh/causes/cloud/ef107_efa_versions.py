"""The EFA software differs between the nodes

Driver, libfabric and plugin of different releases are not tested together.

**Prove:** on every node: modinfo -F version efa && fi_info --version

**Fix:** Install one version of Amazon's EFA installer on all nodes.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("EF-107", __doc__, severity=WARNING)
