"""Ray: a worker process died

A worker process of Ray ended without an exception ({detail}). Most often the memory ran out and the
kernel killed it, or it crashed in native code.

**Place:** the node of that worker

**Prove:** on the node that the message names, run `journalctl -k --since -1d -g oom` and read
/tmp/ray/session_latest/logs

**Fix:** Fix the reason that the worker's own log or the kernel's log shows. If memory ran out, give
the node more, or start fewer workers.

**Source:** read: Ray's core_worker and gcs_actor_manager
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-608",
    __doc__,
    examples=(
        (
            "The actor is dead because its worker process has died. Worker exit type: "
            "SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error "
            "code 2. End of file."
        ),
    ),
    patterns=(
        Pattern("Worker exit type: ", r"Worker exit type: (?P<detail>(?!INTENDED)[A-Z_]{3,40})"),
        Pattern(
            "A worker died or was killed while executing",
            r"(?P<detail>died or was killed while executing a task)",
        ),
        Pattern(
            "Raylet is terminated", r"(?P<detail>Raylet is terminated)\. Termination is unexpected"
        ),
        Pattern(
            "actor died unexpectedly before",
            r"ActorDiedError: (?P<detail>The actor died unexpectedly before finishing)",
        ),
        Pattern(
            "WorkerCrashedError", r"WorkerCrashedError: (?P<detail>The worker died unexpectedly)"
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=58,
)
