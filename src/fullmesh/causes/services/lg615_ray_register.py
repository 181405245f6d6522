"""Ray: a process cannot register with the raylet of its node

A driver or worker could not register with the raylet of its node ({detail}). The raylet ended or
never started: too few processes or files (ulimit -u, ulimit -n), too little memory, a session of
another version or user, or the driver runs outside of the raylet's container.

**Place:** the node of this log, in the same container as the driver

**Prove:** read /tmp/ray/session_latest/logs/raylet.err and raylet.out, and compare `ps -eLf | wc -l`
with `ulimit -u`

**Fix:** Raise the limits before `ray start` (ulimit -u 65535; ulimit -n 65535; --pids-limit of the
container), set num_cpus to the CPUs of the job, remove an old /tmp/ray, and start the driver in the
container of the raylet.

**Source:** vllm-project/vllm#13557, #6295, read: Ray's guide for large clusters
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-615",
    __doc__,
    examples=(
        (
            "[2024-07-10 15:24:06,819 E 2474429 2474429] core_worker.cc:251: Failed to register worker "
            "01000000ffffffffffffffffffffffffffffffffffffffffffffffff to Raylet. IOError: [RayletClient] "
            "Unable to register worker with raylet. No such file or directory"
        ),
        (
            "[2025-02-19 13:33:40,672 E 15244 15244] core_worker.cc:496: Failed to register worker to "
            "Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to read data "
            "from the socket: End of file worker_id=01000000ffffffffffffffffffff"
        ),
    ),
    patterns=(
        Pattern(
            "Unable to register worker with raylet",
            r"Unable to register worker with raylet\. (?P<detail>[A-Z][\w :]{5,80}?)(?: worker_id|\.|$)",
        ),
    ),
    weight=64,
)
