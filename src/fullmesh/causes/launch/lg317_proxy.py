"""A proxy is in the path between the job and a peer or service

An HTTP connection went to a proxy: the proxy variables are set and NO_PROXY does not name the
peers.

**Place:** the node of this log

**Prove:** env | grep -i proxy

**Fix:** Add every peer's name and address to NO_PROXY (Gloo, NCCL and TCPStore never use a proxy).

**Source:** measured (Gloo and TCPStore unaffected), vllm-project/vllm#5779,
modelscope/ms-swift#5545
"""

from __future__ import annotations

from fullmesh.causes.launch.patterns import BROKEN
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-317",
    __doc__,
    examples=(
        (
            "requests.exceptions.ProxyError: HTTPConnectionPool(host='10.77.0.11', port=8000): "
            "Max retries exceeded"
        ),
    ),
    patterns=(Pattern("ProxyError: "), Pattern("Tunnel connection failed: ")),
    only_with=(*BROKEN, "LG-201", "LG-319", "LG-344", "LG-345", "LG-346"),
    weight=45,
    recorded=(
        RecordedLog(
            "proxy",
            (
                "requests.exceptions.ProxyError: HTTPConnectionPool(host='10.77.0.11', "
                "port=8000): Max retries exceeded\n"
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
                "============================================================\n"
                "train.py FAILED\n"
                "------------------------------------------------------------\n"
                "Failures:\n"
                "  <NO_OTHER_FAILURES>\n"
                "------------------------------------------------------------\n"
                "Root Cause (first observed failure):\n"
                "[0]:\n"
                "  time      : 2025-05-21_15:43:03\n"
                "  host      : node2\n"
                "  rank      : 1 (local_rank: 0)\n"
                "  exitcode  : 1 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : x\n"
                "============================================================\n"
                ""
            ),
            folded=("LG-304",),
        ),
    ),
)
