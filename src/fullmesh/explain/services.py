"""What Ray and JAX say (measured with Ray 2.60 and JAX 0.10 where not said otherwise; sources: threads of users)."""

from __future__ import annotations

from fullmesh.explain.model import Cause, Pattern, Severity

PLAN = "Name the service in fullmesh_services and run site.yml (docs/services.md)"
SHUT = "./fullmesh diagnose -i INVENTORY (DG-175 names the port and the rule)"

CAUSES = (
    Cause(
        code="LG-601",
        title="Ray: the head's control store (GCS) cannot be reached",
        says=(
            "Nothing answered at {address}, where Ray's head should have its control store: no head runs there, it"
            " listens on another address, or a firewall drops the port."
        ),
        where="the node with {address}, or what lies before it; not the node that printed this",
        prove=f"on that node: ss -ltn; on this one: nc -zv HOST PORT; {SHUT}",
        fix=f"Start the head first with --node-ip-address (fullmesh-ray does). {PLAN}.",
        source="measured; ray#28191",
        looks=(
            "[2026-11-24 21:20:23,656 W 1636 1636] rpc_client.h:153: Failed to connect to GCS at address"
            " 10.78.7.11:6379 within 5 seconds.",
        ),
        patterns=(
            Pattern(
                "Failed to connect to GCS at address",
                r"Failed to connect to GCS at address (?P<address>\S{3,80}:\d{1,5}) within",
            ),
        ),
        key=("address",),
        weight=88,
    ),
    Cause(
        code="LG-602",
        title="Ray: a command gave up waiting for the control store",
        says="A command or driver of Ray waited for the control store (GCS) and gave up.",
        where="the head's node; not the one that printed this",
        prove=f"fullmesh-ray status; {SHUT}",
        fix=f"Start the head, or open its port. {PLAN}.",
        source="measured",
        looks=(
            "[2026-11-24 21:20:58,679 W 1636 1636] gcs_client.cc:210: Failed to get cluster ID from GCS server:"
            " TimedOut: Timed out while waiting for GCS to become available.",
            "ray.exceptions.RpcError: Timed out while waiting for GCS to become available.",
        ),
        patterns=(Pattern("Timed out while waiting for GCS to become available"),),
        severity=Severity.SYMPTOM,
        follows=("LG-601",),
        weight=70,
    ),
    Cause(
        code="LG-603",
        title="Ray: the range of worker ports is too small",
        says=(
            "A worker of Ray found no free port between --min-worker-port and --max-worker-port: the range has fewer"
            " ports than workers, actors and drivers together. Tasks that wait for such a worker hang."
        ),
        where="the node that printed this",
        prove="grep -c . on ss -ltn of that node within the range; ray status",
        fix="Widen the part workers of ray in fullmesh_services to twice the CPUs at least, and start Ray anew.",
        source="ray#28071",
        looks=(
            "(raylet) [2022-08-23 15:13:15,557 E 223585 223585] core_worker.cc:137: Failed to register worker"
            " a20a041a81c6dc5a5709d7e342bd95bec33fd5b2b181fcce5a4d9221 to Raylet. Invalid: Invalid: No available"
            " ports. Please specify a wider port range using --min-worker-port and --max-worker-port.",
        ),
        patterns=(
            Pattern(
                "No available ports. Please specify a wider port range using --min-worker-port"
            ),
        ),
        weight=94,
    ),
    Cause(
        code="LG-604",
        title="Ray: head and node have different versions of Ray or Python",
        says=(
            "The cluster runs Ray {ray} on Python {python}, and the process on {process} has another version of one of"
            " them: they do not work together."
        ),
        where="the node of the process on {process}",
        prove="on every node: ray --version and python --version of the environment that Ray runs in",
        fix="Install one version on all nodes, from one lock, and start Ray anew everywhere.",
        source="read: ray/_private/utils.py, check_version_info",
        looks=(
            "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.11.2\n"
            "This process on node 10.78.7.12 was started with:\n    Ray: 2.59.0\n    Python: 3.11.2",
        ),
        patterns=(
            Pattern(
                "This process on ",
                r"RuntimeError: Version mismatch: The cluster was started with:.{1,80}?Ray: (?P<ray>\S{1,40}).{1,80}?"
                r"Python: (?P<python>\S{1,40}).{1,80}?This process on (?P<process>.{1,120}?) was started with:",
                before=3,
            ),
        ),
        key=("process",),
        weight=95,
    ),
    Cause(
        code="LG-605",
        title="Ray: --ray-client-server-port without Ray's client installed",
        says="ray start got a port for Ray Client, and this Ray was installed without [client]: it does not start.",
        where="the node that printed this",
        prove="python -c 'import grpc' with Ray's Python",
        fix="Install ray[client], or leave the option out; fullmesh-ray does where gRPC is missing.",
        source="measured",
        looks=(
            "Ray Client requires pip package `ray[client]`. If you installed the minimal Ray (e.g. `pip"
            " install ray`), please reinstall by executing `pip install ray[client]`.",
        ),
        patterns=(Pattern("Ray Client requires pip package `ray[client]`"),),
        weight=95,
    ),
    Cause(
        code="LG-611",
        title="JAX: the coordinator cannot be reached, or not all processes came",
        says=(
            "A process of JAX registered at the coordinator and got no answer in time: no coordinator runs at that"
            " address, its port is shut, or, in the log of process 0, another process did not come."
        ),
        where="the coordinator's node in the logs of the others; in that of process 0 the node that did not come",
        prove=f"on the coordinator's node: ss -ltn; {SHUT}; env | grep JAX_ on every node",
        fix=f"Start all processes within the timeout (initialization_timeout), with fullmesh-jax. {PLAN}.",
        source="measured with nobody at the port, and with process 1 away",
        looks=(
            "F1124 21:44:42.621657   32641 client.h:80] Terminating process because the JAX distributed service"
            " detected fatal errors. This most likely indicates that another task died; see the other task logs for"
            " more details. Disable Python buffering, i.e. `python -u`, to be sure to see all the previous output."
            " absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\n\n"
            "RPC: /xla.coordination.CoordinationService/RegisterTask",
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
    ),
    Cause(
        code="LG-960",
        title="harmless: Ray's object store does not fit into /dev/shm",
        says="Ray keeps its objects in /tmp because /dev/shm is too small: slower where much moves between processes.",
        prove="df -h /dev/shm",
        fix="Make /dev/shm larger (a container: --shm-size), or lower --object-store-memory.",
        source="measured",
        looks=(
            "WARNING: The object store is using /tmp/ray instead of /dev/shm because /dev/shm has only 65536000 bytes"
            " available. This will harm performance!",
        ),
        patterns=(Pattern("instead of /dev/shm because /dev/shm has only"),),
        severity=Severity.HARMLESS,
    ),
)
