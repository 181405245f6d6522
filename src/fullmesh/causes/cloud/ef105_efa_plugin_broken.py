"""NCCL's plugin cannot be loaded

The linker refuses libnccl-net.so, so NCCL goes on without it and talks TCP.

**Prove:** ldd /opt/amazon/ofi-nccl/lib64/libnccl-net.so

**Fix:** Plugin, libfabric and CUDA must fit each other: install one version of the EFA installer.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-105", __doc__)
