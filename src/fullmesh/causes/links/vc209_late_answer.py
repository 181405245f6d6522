"""A listener answered late, or the link is slow

The link is open, but the answer came late. If the node was busy, it is a warning. If a single
connection is slow as well, the finding has its rate and is an error.

**Prove:** uptime on the node, and tc qdisc show

**Fix:** Repeat the command when the node is less busy. On a slow link, remove the limit.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-209", __doc__, severity=WARNING)
