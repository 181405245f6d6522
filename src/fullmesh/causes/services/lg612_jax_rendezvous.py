"""JAX: a process waits for others in a collective

A process of JAX waits for others that did not arrive ({detail}). They failed, or they do not run
the same computation.

**Place:** a process without this line

**Prove:** pass the logs of all processes to explain-log and find the one whose log ends first

**Fix:** Start the same program with the same steps on all processes, and fix the one that failed
first.

**Source:** read: XLA's rendezvous.cc and coordination service
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-612",
    __doc__,
    examples=(
        (
            "E external/xla/xla/service/rendezvous.cc:38] This thread has been waiting for "
            "`initialize clique for rank 6` for 10 seconds and may be stuck. Expected 8 threads "
            "to join the rendezvous, but not all of them arrived on time."
        ),
    ),
    patterns=(
        Pattern(
            "threads to join the rendezvous",
            r"(?P<detail>Expected \d{1,6} threads to join the rendezvous, but (?:not all|only))",
        ),
        Pattern(
            "stopped sending heartbeats",
            r"(?P<detail>tasks? (?:are|is) unhealthy \(stopped sending heartbeats\))",
        ),
        Pattern(
            "the JAX distributed service detected fatal errors",
            r"(?P<detail>the JAX distributed service detected fatal errors)(?!.{0,800}DEADLINE_EXCEEDED)",
        ),
        Pattern(
            "heartbeat timeout. This indicates",
            r"(?P<detail>Task \S{3,80} heartbeat timeout)\. This indicates that the remote task has failed",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=60,
)
