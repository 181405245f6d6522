"""A record has an unknown format

The file is JSON or a pickle of plain data, but it is not a record, or a newer torch wrote it. Or
torchcomms wrote it in a job that sends from rank to rank: it counts sends as collectives, so the
ranks cannot be compared.

**Prove:** head -c 300 FILE

**Fix:** Use torch's own dumps of format 2.x: TORCH_FR_BUFFER_SIZE=2000 and TORCH_FR_DUMP_TEMP_FILE,
or, in torch._C._distributed_c10d, _dump_nccl_trace_json(True, False) for NCCL and
_dump_fr_trace_json(True, False) for Gloo.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-174", __doc__)
