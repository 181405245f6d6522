"""NIXL: its UCX backend failed

NIXL could not create its backend or register GPU memory. Its UCX is missing, too old or built
without CUDA or threads. A second UCX in the system (MPI, HPC-X) often takes the place of the
wheel's own.

**Place:** the environment of the node of this log

**Prove:** run `ucx_info -v`, `ldconfig -p | grep libucp` and check $LD_LIBRARY_PATH

**Fix:** Keep one UCX: remove the system's from LD_LIBRARY_PATH, or build NIXL against it. UCX needs
--with-cuda and --enable-mt, and version 1.18 or newer.

**Source:** sgl-project/sglang#5709, ai-dynamo/nixl#166
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-738",
    __doc__,
    examples=("nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",),
    patterns=(Pattern("NIXL_ERR_", "NIXL_ERR_BACKEND"),),
    weight=73,
)
