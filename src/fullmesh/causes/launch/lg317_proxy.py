"""a proxy stands between the job and a peer or service

An HTTP connection went to a proxy: the proxy variables are set and NO_PROXY does not name the
peers.

**Where:** the node of this log

**Prove:** env | grep -i proxy

**Fix:** Put every peer's name and address into NO_PROXY (Gloo, NCCL and TCPStore never use a
proxy).

**Source:** measured (Gloo and TCPStore unaffected); vllm-project/vllm#5779,
modelscope/ms-swift#5545
"""

from __future__ import annotations

from fullmesh.causes.launch.patterns import BROKEN
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-317",
    __doc__,
    looks=(
        (
            "requests.exceptions.ProxyError: HTTPConnectionPool(host='10.77.0.11', port=8000): "
            "Max retries exceeded"
        ),
    ),
    patterns=(Pattern("ProxyError: "), Pattern("Tunnel connection failed: ")),
    only_with=(*BROKEN, "LG-201", "LG-319"),
    weight=45,
)
