"""Harmless: the job continued after these errors

The log has errors that no rule knows, but later lines report progress or success.

**Prove:** check that the job's result exists

**Fix:** Nothing to do if the result exists.

**Source:** read: the formats of Lightning, DeepSpeed, Transformers and tqdm
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Severity

CAUSE = LogCause(
    "LG-913",
    __doc__,
    severity=Severity.HARMLESS,
)
