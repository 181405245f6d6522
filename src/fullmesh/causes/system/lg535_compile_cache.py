"""The cache of compiled kernels fails

A rank could not read or write a file in the cache of compiled kernels ({detail}). Ranks of several
nodes use the same cache on a shared file system, or another process deletes it.

**Place:** the cache directory (TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR, the home directory)

**Prove:** on the node: df -T ~/.triton/cache /tmp && env | grep -E 'TRITON|INDUCTOR'

**Fix:** Put the cache on a local disk of each node: set TRITON_CACHE_DIR and
TORCHINDUCTOR_CACHE_DIR to a directory below /tmp, one for each rank if that is not enough. Delete
the damaged cache.

**Source:** pytorch/pytorch#173679, read: Triton's runtime/cache.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

# Triton's temporary files have the process in their names
CACHE = r"(?:\.triton/|triton[\w-]{0,20}cache|torchinductor_|tmp\.pid_\d)"
FAULTS = (
    "Stale file handle",
    "No such file or directory",
    "Device or resource busy",
    "file too short",
    "Text file busy",
)
CAUSE = LogCause(
    "LG-535",
    __doc__,
    examples=(
        (
            "torch._inductor.exc.InductorError: ImportError: /root/.triton/cache/XU5DT2AO/"
            "cuda_utils.cpython-310-x86_64-linux-gnu.so: cannot read file data: Stale file handle"
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.triton/cache/cff6/"
            "_rms_norm.ttir.tmp.pid_15735_304289' -> '/home/u/.triton/cache/cff6/_rms_norm.ttir'"
        ),
    ),
    patterns=tuple(
        Pattern(
            fault, rf"rror: (?=.{{0,400}}{fault})(?=.{{0,400}}{CACHE})(?P<detail>[^\n]{{1,200}})"
        )
        for fault in FAULTS
    ),
    weight=88,
)
