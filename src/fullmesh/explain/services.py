"""What Ray, JAX, vLLM, SGLang, DeepSpeed and Accelerate say.

Measured with Ray 2.60, JAX 0.10 and DeepSpeed 0.19 on lab nodes where not said otherwise; sources: threads of users. A
table, one entry a cause, so longer than other files.
"""

from __future__ import annotations

from fullmesh.explain.model import ANY_CAUSE, LogCause, Pattern, Severity
from fullmesh.explain.nccl_connect import BAD_NETWORK

PLAN = "Name the service in fullmesh_services and run site.yml (docs/services.md)"
SHUT = "./fullmesh diagnose -i INVENTORY (DG-175 names the port and the rule)"

CAUSES = (
    LogCause(
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
    LogCause(
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
    LogCause(
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
    LogCause(
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
    LogCause(
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
    LogCause(
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
    LogCause(
        code="LG-680",
        title="Ray: a second head, or one that still runs",
        says="ray start was to start a head at {address}, and a control store (GCS) listens there already.",
        where="the node with {address}",
        prove="on that node: ss -ltnp; ray status",
        fix=(
            "fullmesh-ray stop ends the one of before. A node that is to join is no head: fullmesh-ray start knows"
            " which it is."
        ),
        source="measured",
        looks=(
            "ConnectionError: Ray is trying to start at 10.78.2.11:6379, but is already running at 10.78.2.11:6379."
            " Please specify a different port using the `--port` flag of `ray start` command.",
        ),
        patterns=(
            Pattern(
                "Ray is trying to start at ",
                r"Ray is trying to start at (?P<address>\S{3,80}:\d{1,5}), but is already running at",
            ),
        ),
        key=("address",),
        weight=95,
    ),
    LogCause(
        code="LG-681",
        title="Ray: the head does not reach a node that joined",
        says=(
            "A node joined with the address {address}, and the head cannot connect to it there ({why}), so that it is"
            " taken for dead: the node announced another network's address than the head's, or its ports are shut."
        ),
        where="the node with {address}",
        prove=f"ray status lists the node's address; on the head: nc -zv HOST PORT; {SHUT}",
        fix=f"Start it with the cluster's address (--node-ip-address; fullmesh-ray does). {PLAN}.",
        source="measured, with the address of another card",
        looks=(
            "[2026-11-25 04:30:02,814 W 1803 1803] (gcs_server) gcs_health_check_manager.cc:209: Health check failed"
            " for node 755a9e09bb516d7ebb7ddbe7d3e76950c85cf881229317ddaa95cdc4, remaining checks 0, status 14,"
            " response status 0, status message failed to connect to all addresses; last error: UNKNOWN:"
            " ipv4:10.77.2.12:50077: Failed to connect to remote host: No route to host, status details",
        ),
        patterns=(
            Pattern(
                "Health check failed for node",
                r"Health check failed for node .{0,300}ipv[46]:(?P<address>\S{3,80}:\d{1,5}): Failed to connect to"
                r" remote host: (?P<why>[^,]{1,60})",
            ),
        ),
        key=("address",),
        weight=92,
    ),
    LogCause(
        code="LG-682",
        title="Ray: a node was taken for dead",
        says="The head got no answer to its health checks from the node {address} and took it for dead.",
        where="the node with {address}: it ended (memory, a signal), or the head no longer reaches it",
        prove="on that node: dmesg, /tmp/ray/session_latest/logs/raylet.out",
        fix="Look why its raylet ended; where it runs, ./fullmesh diagnose names what lies between.",
        source="measured",
        looks=(
            "The node with node id: 755a9e09bb516d7ebb7ddbe7d3e76950c85cf881229317ddaa95cdc4 and address: 10.77.2.12"
            " and node name: 10.77.2.12 has been marked dead because the detector has missed too many heartbeats from"
            " it.",
        ),
        patterns=(
            Pattern(
                "has been marked dead because the detector",
                r"and address: (?P<address>\S{3,80}) and node name: .{1,120} has been marked dead",
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=("LG-681",),
        key=("address",),
        weight=60,
    ),
    LogCause(
        code="LG-683",
        title="vLLM: nodes and addresses do not match in number",
        says=(
            "vLLM sees {nodes} nodes and {addresses} addresses: a process took the address of another card than Ray"
            " knows its node by, or VLLM_HOST_IP is the same on two nodes."
        ),
        where="the node whose address is of another network, in the braces of the message",
        prove="on every node: echo $VLLM_HOST_IP; ray status; ip route get 8.8.8.8",
        fix=(
            "Start Ray with fullmesh-ray, which gives each node's workers its VLLM_HOST_IP, and vllm serve with"
            " VLLM_HOST_IP=$FULLMESH_ADDRESS (docs/services.md)."
        ),
        source="read: vllm/executor/ray_distributed_executor.py; vllm#7815, vllm#43095",
        looks=(
            "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['3f1e', '88ab'] and 3"
            " unique IP addresses {'10.78.2.11', '10.78.2.12', '192.168.1.12'}. Please check your network"
            " configuration. If you set `VLLM_HOST_IP` environment variable, make sure it is unique for each node.",
        ),
        patterns=(
            Pattern(
                "Every node should have a unique IP address",
                r"Every node should have a unique IP address\. Got (?P<nodes>\d+) nodes .{0,2000}?and"
                r" (?P<addresses>\d+) unique IP addresses",
            ),
        ),
        weight=93,
    ),
    LogCause(
        code="LG-684",
        title="vLLM: Ray does not have the GPUs that it asks for",
        says=(
            "vLLM waits for {seconds} s for GPUs that Ray is to give it: a node has not joined, Ray counts fewer GPUs"
            " than asked for, or vLLM started a Ray of its own on this node, or names the node by another address than"
            " Ray."
        ),
        where="Ray's cluster; not the process that printed this",
        prove="fullmesh-ray status: nodes and GPUs; in the log: Started a local Ray instance",
        fix=(
            "Start Ray with --num-gpus on every node and wait until fullmesh-ray status lists them, export RAY_ADDRESS"
            f" and VLLM_HOST_IP as docs/services.md shows. {SHUT}"
        ),
        source="vllm#13909, aibrix#927, gpustack#5509",
        looks=(
            "INFO 04-01 02:46:20 ray_utils.py:214] Waiting for creating a placement group of specs for 30 seconds."
            " specs=[{'node:10.163.194.101': 0.001, 'GPU': 1.0}, {'GPU': 1.0}]. Check `ray status` to see if you have"
            " enough resources",
        ),
        patterns=(
            Pattern(
                "Waiting for creating a placement group of specs",
                r"Waiting for creating a placement group of specs for (?P<seconds>\d+) seconds",
            ),
        ),
        weight=80,
    ),
    LogCause(
        code="LG-685",
        title="DeepSpeed: no hostfile, so each node trains alone",
        says=(
            "The deepspeed command found no hostfile and starts on this node alone, and the logs show a second node"
            " ({nodes}): each trains a model of its own, and nothing says so later."
        ),
        where="the node that printed this",
        prove="in the log: WORLD INFO DICT and dist_world_size",
        fix=(
            "Give --hostfile /etc/fullmesh/hostfile (docs/launchers.md), or start with fullmesh-torchrun."
        ),
        source="deepspeedai/DeepSpeedExamples#575, EleutherAI/gpt-neox#671",
        looks=(),
        patterns=(),
        weight=40,
    ),
    LogCause(
        code="LG-686",
        title="DeepSpeed: its launcher cannot log in to a node",
        says="The deepspeed command starts the other nodes over ssh, and {host} does not let it in without a password.",
        where="between the node that printed this and {host}",
        prove="ssh -o BatchMode=yes HOST true, as the same account",
        fix="Start it on every node with --no_ssh (docs/launchers.md), or let nodes log in (node_ssh_manage: true).",
        source="read: deepspeed/launcher/runner.py of 0.19",
        looks=(
            "RuntimeError: Using hostfile at /job/hostfile but host=10.78.2.12 was not reachable via ssh. If you are"
            " running with a single node please remove /job/hostfile or setup passwordless ssh.",
        ),
        patterns=(
            Pattern(
                "was not reachable via ssh",
                r"Using hostfile at \S{1,200} but host=(?P<host>\S{1,120}) was not reachable via ssh",
            ),
        ),
        weight=94,
    ),
    LogCause(
        code="LG-687",
        title="DeepSpeed: a part of it is to be compiled and cannot be",
        says="DeepSpeed compiles {part} at its first use, and ninja (or the compiler) is not on this node.",
        where="the node that printed this; the others wait for it",
        prove="which ninja c++ on every node",
        fix=(
            "Without GPUs do without deepspeed_shm_comm (examples/deepspeed_train.py shows the line). Else install"
            " ninja and a compiler, or build the part when DeepSpeed is installed (DS_BUILD_...)."
        ),
        source="measured",
        looks=(
            "RuntimeError: Unable to JIT load the deepspeed_shm_comm op due to ninja not being installed.",
        ),
        patterns=(
            Pattern(
                "Unable to JIT load the",
                r"Unable to JIT load the (?P<part>\w{1,60}) op due to",
            ),
        ),
        weight=95,
    ),
    LogCause(
        code="LG-688",
        title="Accelerate: its settings do not say how many processes",
        says="accelerate launch was not told, or told too small, how many processes there are over all nodes.",
        where="the node that printed this",
        prove="accelerate env; the file below ~/.cache/huggingface/accelerate",
        fix="Start with fullmesh-accelerate, or give --config_file what fullmesh-accelerate config writes.",
        source="read: accelerate/commands/launch.py of 1.15",
        looks=(
            "ValueError: You need to use at least 2 processes to use `--multi_gpu`.",
            "ValueError: You need to manually pass in `--num_processes` using this config yaml.",
        ),
        patterns=(
            Pattern("You need to use at least 2 processes to use `--multi_gpu`"),
            Pattern("You need to manually pass in `--num_processes` using this config yaml"),
        ),
        weight=94,
    ),
    LogCause(
        code="LG-689",
        title="SGLang: --dist-init-addr is no address and port",
        says="SGLang was to meet its other nodes at an address that it cannot read as host:port.",
        where="the node that printed this",
        prove="the command line, with the variables that it was made of",
        fix="Write --dist-init-addr ADDRESS:20000, an IPv6 address in brackets (docs/services.md).",
        source="read: sglang/srt/server_args.py",
        looks=("AssertionError: please provide --dist-init-addr as host:port of head node",),
        patterns=(Pattern("please provide --dist-init-addr as host:port of head node"),),
        weight=94,
    ),
    LogCause(
        code="LG-690",
        title="vLLM: its workers have taken no work for minutes",
        says=(
            "vLLM's engine waited for its workers for 5 min or longer. A worker hangs (mostly in a collective with"
            " another node), or works that long (compilation, loading)."
        ),
        where="a worker; the process that printed this only waits",
        prove="while it waits: ./fullmesh hang -i INVENTORY; py-spy dump --pid PID on every worker",
        fix="Fix what the workers hang in; give explain-log the logs of all nodes.",
        source="read: vllm/distributed/device_communicators/shm_broadcast.py",
        looks=(
            "INFO 02-22 23:21:42 [shm_broadcast.py:548] No available shared memory broadcast block found in"
            " 60 seconds.",
        ),
        patterns=(Pattern("No available shared memory broadcast block found in"),),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
        least=5,
    ),
    LogCause(
        code="LG-691",
        title="vLLM: the coordinator of data parallelism did not start in time",
        says=(
            "vLLM's coordinator process for data parallelism did not report within its start timeout (30 s): it ended"
            " with an error, or its imports take longer on a slow or shared file system."
        ),
        where="the node of this log",
        prove="time python -c 'import vllm' on that node; look for an error of the coordinator above it",
        fix="Put the environment on a local disk, or start again when the files are cached; update vLLM.",
        source="vllm-project/vllm#43611, PrimeIntellect-ai/prime-rl#2804",
        looks=(
            "(APIServer pid=1201) RuntimeError: DP Coordinator process failed to report ZMQ addresses during startup.",
        ),
        patterns=(Pattern("DP Coordinator process failed to report"),),
        weight=82,
    ),
    LogCause(
        code="LG-692",
        title="vLLM: the head's interface names replace those of another node",
        says=(
            "vLLM copied {variable} from its head to a worker that had another value ({own} became {head}). If the"
            " interfaces have different names there, the worker finds none, or the wrong one."
        ),
        where="the node whose own value was replaced",
        prove="on every node: ip -brief link; ls /sys/class/infiniband; env | grep -E 'IFNAME|HCA|NET_DEVICES'",
        fix=(
            "Give the interfaces the same names or list all of them on both, or leave the variable unset on the head"
            " and set it on each node (vLLM does not carry over what ray_non_carry_over_env_vars.json in its"
            " configuration folder names)."
        ),
        source="spark-arena/sparkrun#135; read: vllm/utils update_environment_variables",
        looks=(
            "(EngineCore_DP0 pid=312) Overwriting environment variable NCCL_SOCKET_IFNAME from 'enp1s0f0np0' to"
            " 'enp1s0f1np1'",
        ),
        patterns=(
            Pattern(
                "Overwriting environment variable ",
                r"Overwriting environment variable (?P<variable>\w{1,30}_(?:IFNAME|HCA|NET_DEVICES)) from"
                r" '(?P<own>[^']{1,120})' to '(?P<head>[^']{1,120})'",
            ),
        ),
        needs=(*BAD_NETWORK, "LG-102", "LG-103", "LG-104", "LG-108", "LG-406", "LG-412"),
        weight=80,
    ),
    LogCause(
        code="LG-693",
        title="Ray: a process looks for its node at another address than the one that it was started with",
        says=(
            "A process of Ray found the address {address} for its own node, and no node is registered with it: the node"
            " was started with another address (--node-ip-address), or runs in a container with addresses of its own."
        ),
        where="the node with {address}",
        prove="ray status lists the nodes' addresses; ip -brief addr on that node",
        fix=f"Start Ray on every node with the cluster's address (--node-ip-address; fullmesh-ray does). {PLAN}.",
        source="ray-project/ray#33554",
        looks=(
            "(raylet, ip=10.19.4.7) [2023-03-21 21:53:44,254 I 76852 76852] global_state_accessor.cc:356: This node has"
            " an IP address of 10.19.4.7, while we can not find the matched Raylet address.",
        ),
        patterns=(
            Pattern(
                "the matched Raylet address",
                r"This node has an IP address of (?P<address>\S{3,60}), while we can ?not find the matched"
                r" Raylet address",
            ),
        ),
        weight=83,
    ),
    LogCause(
        code="LG-961",
        title="harmless on one node: DeepSpeed found no hostfile",
        says=(
            "The deepspeed command found no hostfile and starts on this node alone. That is right for one node; for"
            " several nodes give it --hostfile."
        ),
        prove="in the log: WORLD INFO DICT and dist_world_size",
        fix="Nothing on one node. On several: --hostfile /etc/fullmesh/hostfile (docs/launchers.md).",
        source="read: deepspeed/launcher/runner.py; deepspeedai/DeepSpeedExamples#575",
        looks=(
            "[2023-06-06 02:44:00,164] [WARNING] [runner.py:191:fetch_hostfile] Unable to find hostfile, will proceed"
            " with training with local resources only.",
        ),
        patterns=(Pattern("Unable to find hostfile, will proceed with training with local"),),
        severity=Severity.HARMLESS,
    ),
    LogCause(
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
