"""JAX: the coordinator is unreachable, or a process is missing

A JAX process registered at the coordinator and got no reply in time. No coordinator runs at that
address, or its port is blocked. In the log of process 0, it means that another process is missing.

**Place:** the coordinator's node, or the missing node if this is the log of process 0

**Prove:** run `env | grep JAX_` on every node, `ss -ltn` on the coordinator's node, and ./fullmesh
diagnose -i INVENTORY (DG-175 names the port and the rule)

**Fix:** Start all processes within the timeout (initialization_timeout), with fullmesh-jax. Name
the service in fullmesh_services and run site.yml (docs/services.md).

**Source:** measured without a listener at the port, and with process 1 missing
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-611",
    __doc__,
    examples=(
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
        # jax up to 0.4, and later barriers
        Pattern(
            "Barrier timed out. ",
            r"DEADLINE_EXCEEDED: Barrier timed out\. (?:Barrier_id|Id): ",
        ),
        Pattern(
            "cluster registration failed",
            r"Stopping coordination service as cluster registration failed",
        ),
        Pattern(
            "RuntimeError: DEADLINE_EXCEEDED: ",
            r"(?:Xla|Jax)RuntimeError: DEADLINE_EXCEEDED: (?!Barrier timed out)",
        ),
        Pattern("waiting for topology", r"DEADLINE_EXCEEDED: Timed out waiting for topology"),
        Pattern(
            "RuntimeError: UNAVAILABLE: failed to connect",
            r"(?:Xla|Jax)RuntimeError: UNAVAILABLE: failed to connect to all addresses",
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
