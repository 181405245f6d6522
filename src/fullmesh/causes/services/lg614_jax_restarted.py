"""JAX: a process joined a second time

The coordinator of JAX already knew task {task}, and a new process with the same id came. That process was restarted
alone, or a child process (a data loader's worker) also calls jax.distributed.initialize().

**Place:** task {task}

**Prove:** in the log of task {task}, look for its earlier end, and for a second line of
jax.distributed.initialize() without one

**Fix:** Restart all processes together. Call jax.distributed.initialize() only in the main process, behind
`if __name__ == "__main__":`.

**Source:** google/grain#802, marin-community/marin#7650
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-614",
    __doc__,
    examples=(
        "/job:jax_worker/replica:0/task:1 unexpectedly tried to connect with a different incarnation. It has "
        "likely restarted.",
    ),
    patterns=(
        Pattern(
            "with a different incarnation",
            r"task:(?P<task>\d{1,7}) unexpectedly tried to connect with a different incarnation",
        ),
    ),
    key=("task",),
    weight=80,
)
