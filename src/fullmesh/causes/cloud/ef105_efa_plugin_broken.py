"""NCCL's plugin cannot be loaded

The linker cannot load libnccl-net.so, so NCCL continues without it and uses TCP.

**Prove:** ldd /opt/amazon/ofi-nccl/lib64/libnccl-net.so

**Fix:** Install plugin and libfabric from one version of the EFA installer, one that supports your
CUDA.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-105", __doc__)
