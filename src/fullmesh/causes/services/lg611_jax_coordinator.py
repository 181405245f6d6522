"""JAX: the coordinator cannot be reached, or not all processes came

A process of JAX registered at the coordinator and got no answer in time: no coordinator runs at
that address, its port is shut, or, in the log of process 0, another process did not come.

**Where:** the coordinator's node in the logs of the others; in that of process 0 the node that did
not come

**Prove:** on the coordinator's node: ss -ltn; ./fullmesh diagnose -i INVENTORY (DG-175 names the
port and the rule); env | grep JAX_ on every node

**Fix:** Start all processes within the timeout (initialization_timeout), with fullmesh-jax. Name
the service in fullmesh_services and run site.yml (docs/services.md).

**Source:** measured with nobody at the port, and with process 1 away
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-611",
    __doc__,
    looks=(
        (
            "F1124 21:44:42.621657   32641 client.h:80] Terminating process because the JAX "
            "distributed service detected fatal errors. This most likely indicates that another "
            "task died; see the other task logs for more details. Disable Python buffering, i.e. "
            "`python -u`, to be sure to see all the previous output. absl::Status: "
            "DEADLINE_EXCEEDED: Deadline Exceeded\n"
            "\n"
            "RPC: /xla.coordination.CoordinationService/RegisterTask"
        ),
    ),
    patterns=(
        Pattern(
            "CoordinationService/RegisterTask",
            r"DEADLINE_EXCEEDED.{0,300}CoordinationService/RegisterTask",
            before=3,
        ),
        # what jax up to 0.4 prints, and any later barrier
        Pattern(
            "Barrier timed out. ",
            r"DEADLINE_EXCEEDED: Barrier timed out\. (?:Barrier_id|Id): ",
        ),
    ),
    weight=86,
    recorded=(
        RecordedLog(
            "jax without a coordinator",
            (
                "F1124 21:44:42.621657   32641 client.h:80] Terminating process because the "
                "JAX distributed service detected fatal errors. This most likely indicates "
                "that another task died; see the other task logs for more details. Disable "
                "Python buffering, i.e. `python -u`, to be sure to see all the previous "
                "output. absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\n"
                "\n"
                "RPC: /xla.coordination.CoordinationService/RegisterTask\n"
                "*** Check failure stack trace: ***\n"
                "    @     0x7f46c8c40634  "
                "absl::lts_20260107::log_internal::LogMessage::SendToLog()"
            ),
        ),
        RecordedLog(
            "a barrier of JAX",
            (
                "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. "
                "Barrier_id: sync0. Timed out task names:\n"
                "/job:jax_worker/replica:0/task:3"
            ),
        ),
    ),
)
