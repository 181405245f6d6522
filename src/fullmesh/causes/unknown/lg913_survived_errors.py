"""harmless: errors after which the job went on

The log has errors that no rule knows, but the same log reports progress or a good end after them.

**Prove:** look whether the job's result is there

**Fix:** Nothing, if the result is there.

**Source:** read: the formats of Lightning, DeepSpeed, Transformers and tqdm
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Severity

CAUSE = LogCause(
    "LG-913",
    __doc__,
    severity=Severity.HARMLESS,
)
