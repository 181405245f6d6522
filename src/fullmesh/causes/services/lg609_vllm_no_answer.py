"""vLLM: a worker did not answer in time

The engine waited for a worker until its timeout ({detail}). A worker hangs in a collective, ended,
or needs longer for a step than the timeout allows.

**Place:** a worker of another node, or of this one

**Prove:** pass the logs of all nodes to explain-log and look for the first error of a worker

**Fix:** Fix the worker that failed first. If a step only needs longer, raise
VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS or VLLM_RPC_TIMEOUT.

**Source:** read: vLLM's multiproc_executor.py and core_client.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-609",
    __doc__,
    examples=("TimeoutError: RPC call to sample_tokens timed out.",),
    patterns=(
        Pattern("RPC call to ", r"(?P<detail>RPC call to \w{1,40} timed out)"),
        Pattern("No response from engine core", r"(?P<detail>No response from engine core)"),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=60,
)
