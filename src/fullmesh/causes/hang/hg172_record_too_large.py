"""A record is larger or deeper than any that torch writes

The file would need more memory or time than a record of the largest buffer, so Fullmesh does not
read it.

**Prove:** ls -l FILE

**Fix:** Record fewer entries: TORCH_FR_BUFFER_SIZE=2000 (TORCH_NCCL_TRACE_BUFFER_SIZE
before torch 2.8).
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-172", __doc__)
