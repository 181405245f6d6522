"""proxy variables without an exception for the peers

Gloo, NCCL and the store do not mind proxies; what speaks HTTP between ranks (vLLM, Ray, Hugging Face) asks the proxy
for the peers.

**Prove:** env | grep -i proxy

**Fix:** Add the peers' addresses and names to no_proxy; role cluster_env does.

**Source:** vllm#5779
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-150",
    __doc__,
    severity=WARNING,
    weight=190,
    cases=(CauseCase("proxy", "https_proxy in /etc/environment, no_proxy without the peers"),),
)
