"""vLLM: its workers have accepted no work for minutes

vLLM's engine waited for its workers for 5 min or longer. A worker hangs (mostly in a collective
with another node), or it is busy for that long (compilation, loading).

**Place:** a worker, not the process that printed this

**Prove:** while it waits: ./fullmesh hang -i INVENTORY, or py-spy dump --pid PID on every worker

**Fix:** Fix the cause of the hang. To find it, pass the logs of all nodes to explain-log.

**Source:** read: vllm/distributed/device_communicators/shm_broadcast.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-690",
    __doc__,
    examples=(
        (
            "INFO 02-22 23:21:42 [shm_broadcast.py:548] No available shared memory broadcast "
            "block found in 60 seconds."
        ),
    ),
    patterns=(Pattern("No available shared memory broadcast block found in"),),
    severity=Severity.SYMPTOM,
    follows_any=True,
    least=5,
)
