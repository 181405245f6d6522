"""a record that is larger or deeper than any that torch writes

Such a file would need more memory or time than a record of the largest buffer.

**Prove:** ls -l FILE

**Fix:** A record of fewer entries: TORCH_FR_BUFFER_SIZE=2000.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-172", __doc__)
