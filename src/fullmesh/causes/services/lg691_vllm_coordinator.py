"""vLLM: the data-parallel coordinator did not start in time

vLLM's coordinator process for data parallelism did not report within its start timeout (30 s). It
ended with an error, or its imports take longer on a slow or shared file system.

**Place:** the node of this log

**Prove:** on that node, run `time python -c 'import vllm'`, and look for an earlier error of the
coordinator in the log

**Fix:** Move the environment to a local disk, or start again when the files are cached. A newer
vLLM may help.

**Source:** vllm-project/vllm#43611, PrimeIntellect-ai/prime-rl#2804
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-691",
    __doc__,
    examples=(
        (
            "(APIServer pid=1201) RuntimeError: DP Coordinator process failed to report ZMQ "
            "addresses during startup."
        ),
    ),
    patterns=(Pattern("DP Coordinator process failed to report"),),
    weight=82,
)
