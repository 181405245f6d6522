"""What NCCL says (sources: NVIDIA/nccl@5067397 = 2.30.7 and tags 2.10 to 2.30; the library 2.32.3 without a GPU)."""

from __future__ import annotations

from dataclasses import replace

from fullmesh.explain.derive import invalid_rank, nccl_remote
from fullmesh.explain.model import ANY_CAUSE, Cause, Fields, Options, Pattern, Severity

ADDRESS = r"(?P<peer>[^\s<>]{1,120})<(?P<port>\d{1,5})>"
LINKS = "./fullmesh verify -i INVENTORY (rung L2, both directions: NCCL connects either way"
FIREWALL = "./fullmesh apply -i INVENTORY -- --tags tuning,firewall (pins the port range and opens it to the peers)"
CRASHES = ("LG-305", "LG-306", "LG-307", "LG-319", "LG-501", "LG-506", "LG-509")
BAD_NETWORK = (
    "LG-402",
    "LG-403",
    "LG-404",
    "LG-405",
    "LG-415",
    "LG-421",
    "LG-422",
    "LG-201",
    "LG-202",
    "LG-203",
)


def connect(words: str) -> tuple[Pattern, ...]:
    """A connection that failed with *words*, in the spellings of NCCL 2.10 to 2.32."""
    return (
        Pattern("onnect to ", rf"[Cc]onnect to {ADDRESS} returned (?:\d+\()?{words}\)?"),
        Pattern("onnect to ", rf"[Cc]onnect to {ADDRESS} failed ?: {words}"),
        Pattern(
            "error retry count",
            rf"connect to {ADDRESS} returned {words}, exceeded error retry count",
        ),
        # the address stands in no line before 2.24, and the last try is always logged
        Pattern(
            "retrying (34/34)", rf"connect returned {words}, retrying \(34/34\)(?P<peer>)(?P<port>)"
        ),
    )


def connected(fields: Fields, options: Options) -> Fields | None:
    """An old NCCL's retry line has no address."""
    return (
        nccl_remote(fields, options)
        if fields["port"]
        else {**fields, "peer": "a peer", "port_note": ""}
    )


def some_peer(fields: Fields, _options: Options) -> Fields:
    """Old messages about RDMA do not name the peer."""
    return {**fields, "peer": fields["peer"] or "a peer"}


REJECTED = Cause(
    code="LG-402",
    title="NCCL: a peer's port is rejected (No route to host)",
    says=(
        "NCCL's connection to {peer} {port_note} was rejected: a firewall answers with REJECT"
        " (firewalld's default)."
    ),
    where=(
        "the node that has the address {peer} (its firewall, or its rank ended), not the node of this log"
    ),
    prove=f"{LINKS}): VC-202; ip neigh show {{peer}} has an entry when the host is there",
    mend=FIREWALL,
    source="read: nccl os/linux.cc:277-306, socket.cc; sgl-project/sglang#3820, NVIDIA/nccl#388",
    looks=(
        "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to"
        " 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)",
    ),
    patterns=connect("No route to host"),
    follows=(*CRASHES, "LG-406", "LG-410", "LG-424", "LG-508"),
    key=("peer",),
    derive=connected,
    weight=76,
)
REFUSED = replace(
    REJECTED,
    code="LG-403",
    title="NCCL: a peer's port is refused (Connection refused)",
    says=(
        "NCCL's connection to {peer} {port_note} was refused: a firewall with TCP reset, or the rank"
        " there has ended."
    ),
    prove=f"{LINKS}): VC-203 proves the firewall; without it read the log of the rank there",
    looks=(
        "node1:1:2 [0] misc/socket.cc:560 NCCL WARN socketPollConnect: connect to 10.0.0.4<51849>"
        " returned Connection refused, exceeded error retry count after 35 attempts",
    ),
    patterns=connect("Connection refused"),
    weight=70,
)
DROPPED = replace(
    REJECTED,
    code="LG-404",
    title="NCCL: packets to a peer's port are dropped (Connection timed out)",
    says="NCCL's connection to {peer} {port_note} got no answer: something drops the packets.",
    prove=f"{LINKS}): VC-201; a drop counter that stays 0 on {{peer}} means a security group or switch",
    looks=(
        "node1:1:2 [0] include/socket.h:403 NCCL WARN Connect to 172.18.40.42<42333> failed :"
        " Connection timed out",
    ),
    patterns=connect("Connection timed out"),
    weight=74,
)

CAUSES = (
    Cause(
        code="LG-401",
        title="NCCL: a rank number beyond the world size",
        says=(
            "A process called itself rank {rank} of {size}: RANK and WORLD_SIZE do not fit"
            " (world size of one node given to all nodes?)."
        ),
        where="the launcher of the node of this log",
        prove="on that node: env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|NODE_RANK)'",
        mend=(
            "WORLD_SIZE is nodes x processes per node; let torchrun or fullmesh's launchers set"
            " both, not the script."
        ),
        source="read: nccl init.cc:2500; Lightning-AI/pytorch-lightning#20219",
        looks=("ued37c44e4ea65b:6861:6861 [7] init.cc:981 NCCL WARN Invalid rank requested : 7/4",),
        patterns=(
            Pattern(
                "Invalid rank requested",
                r"Invalid rank requested : (?P<rank>\d{1,9})/(?P<size>\d{1,9})",
            ),
        ),
        key=("size",),
        derive=invalid_rank,
        weight=95,
    ),
    REJECTED,
    REFUSED,
    DROPPED,
    Cause(
        code="LG-405",
        title="NCCL: a retried connection was aborted; the first error says why",
        says=(
            "NCCL's second try to connect to {peer} was aborted; that is a bug in its error"
            " handling, the first error is the cause."
        ),
        where="the node that has the address {peer}",
        prove=f"NCCL_DEBUG=INFO, and read the first error; {LINKS})",
        mend=f"{FIREWALL}; NCCL 2.24 and newer say the reason.",
        source="NVIDIA/nccl#1515",
        looks=(
            "ubuntu:39964:40075 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to"
            " 10.0.0.2<45763> failed : Software"
            " caused connection abort",
        ),
        patterns=(
            Pattern(
                "Software caused connection abort",
                rf"Connect to {ADDRESS} failed ?: Software caused connection abort",
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
        key=("peer",),
    ),
    Cause(
        code="LG-406",
        title="NCCL: NCCL_SOCKET_IFNAME matches no interface",
        says="NCCL found no interface for its bootstrap: NCCL_SOCKET_IFNAME matches none that is up on this node.",
        where="the node of this log",
        prove=(
            "on that node: ip -brief link; env | grep NCCL_SOCKET_IFNAME; ./fullmesh verify -i"
            " INVENTORY (VC-601, VC-603)"
        ),
        mend="./fullmesh apply -i INVENTORY -- --tags launch (role cluster_env sets each node's own interface).",
        source="measured with the library 2.32.3; NVIDIA/nccl#1837 (before 2.28 a nonsense address family), #1267",
        looks=(
            "node1:1:1 [0] bootstrap.cc:94 NCCL WARN Bootstrap : no socket interface found",
            "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        ),
        patterns=(
            Pattern("no socket interface found"),
            Pattern("is neither AF_INET(2) nor AF_INET6(10)"),
            Pattern("no NCCL_SOCKET_IFNAME interface found"),
        ),
        weight=92,
    ),
    Cause(
        code="LG-407",
        title="NCCL: one rank number came twice",
        says="Rank {rank} of {size} checked in twice: two processes have the same RANK.",
        where="the two processes with RANK {rank}",
        prove="on all nodes: env | grep -E '^(RANK|NODE_RANK)'; pgrep -af torchrun",
        mend="Every node needs its own node rank (fullmesh_node_rank); end processes of an earlier try.",
        source="read: nccl bootstrap.cc:335",
        looks=(
            "node1:1:2 [0] bootstrap.cc:348 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in",
        ),
        patterns=(
            Pattern(
                "has already checked in",
                r"rank (?P<rank>\d+) of (?P<size>\d+) ranks has already checked in",
            ),
        ),
        key=("rank",),
        weight=92,
    ),
    Cause(
        code="LG-408",
        title="NCCL: ranks disagree on the world size",
        says="The ranks came with different world sizes ({detail}).",
        where="the node whose WORLD_SIZE differs",
        prove="on all nodes: env | grep -E '^(WORLD_SIZE|NNODES)'",
        mend="One environment for all nodes: ./fullmesh apply -i INVENTORY -- --tags launch.",
        source="read: nccl bootstrap.cc:348; the job hangs afterwards",
        looks=(
            "node1:1:2 [0] bootstrap.cc:335 NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 4 vs 3",
        ),
        patterns=(
            Pattern(
                "mismatch in info from procs", r"(?P<detail>mismatch in info from procs.{0,80})"
            ),
            Pattern(
                "mismatch in rank count from procs",
                r"(?P<detail>mismatch in rank count from procs.{0,80})",
            ),
        ),
        weight=91,
    ),
    Cause(
        code="LG-409",
        title="NCCL: a message of the wrong length (different versions or settings)",
        says=(
            "NCCL received {got} bytes where it expected {wanted}: nodes run different NCCL"
            " versions or settings, or the wrong peer answered."
        ),
        where="the nodes that differ",
        prove=(
            "NCCL_DEBUG=VERSION on all nodes; env | grep ^NCCL_ | sort (compare); ./fullmesh"
            " verify -i INVENTORY (VC-104)"
        ),
        mend="One NCCL for all nodes (roles nccl, torch_runtime), one environment (role cluster_env).",
        source="NVIDIA/nccl#1328, #1176, #1273",
        looks=(
            (
                "node1:1:2 [0] bootstrap.cc:133 NCCL WARN Bootstrap : Message truncated : received"
                " 1024 bytes instead of 256"
            ),
        ),
        patterns=(
            Pattern(
                "Message truncated",
                r"Message truncated : received (?P<got>\d+) bytes instead of (?P<wanted>\d+)",
            ),
        ),
        follows=("LG-407", "LG-408", "LG-423"),
        weight=80,
    ),
    Cause(
        code="LG-410",
        title="NCCL: it chose an interface that the peers cannot reach",
        says="NCCL on {host} took {interface} ({address}), an interface of containers or of this host alone.",
        where="{host}",
        prove="./fullmesh verify -i INVENTORY (VC-601 asks the real library without a GPU)",
        mend=(
            "./fullmesh apply -i INVENTORY -- --tags launch, or export"
            " NCCL_SOCKET_IFNAME==INTERFACE (one = more means the exact name)."
        ),
        source="measured with the library 2.32.3; NVIDIA/nccl#697, #913, #286, gpustack/gpustack#2275",
        looks=("node1:12:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>",),
        patterns=(
            Pattern(
                "Bootstrap : Using ",
                r"(?P<host>[^\s:]{1,120}):\d+:\d+ \[\d+\] NCCL INFO Bootstrap : Using (?:\[0\])?"
                r"(?P<interface>(?:lo|docker|br-|virbr|veth|cni|flannel|cali|tailscale|podman|lxc)[^\s:]{0,16}):(?P<address>[^\s<]{1,60})<",
            ),
        ),
        key=("host", "interface"),
        needs=BAD_NETWORK,
        weight=89,
    ),
    Cause(
        code="LG-411",
        title="NCCL: two ranks use one GPU",
        says=(
            "Ranks {rank} and {other} both use CUDA device {device}: the program does not select"
            " the GPU of its local rank."
        ),
        where="the node of this log",
        prove=(
            "on that node: nvidia-smi --query-compute-apps=pid,gpu_bus_id --format=csv; env |"
            " grep -E '^(LOCAL_RANK|CUDA_VISIBLE)'"
        ),
        mend=(
            "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first; as many processes as"
            " GPUs; no fixed device in the script."
        ),
        source="horovod/horovod#3929, verl-project/verl#161",
        looks=(
            (
                "node1:29880:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and"
                " rank 0 both on CUDA device 1000"
            ),
        ),
        patterns=(
            Pattern(
                "Duplicate GPU detected",
                (
                    r"Duplicate GPU detected : rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA"
                    r" device (?P<device>\w+)"
                ),
            ),
        ),
        key=("device",),
        weight=94,
    ),
    Cause(
        code="LG-412",
        title="NCCL: RDMA packets do not arrive (completion 12, vendor error 129)",
        says=(
            "RDMA to {peer} failed: wrong GID index, UDP 4791 blocked between"
            " the nodes, or a port of the fabric is down."
        ),
        where="the path to {peer}: switch, ACL or the GID that one side took",
        prove="show_gids on all nodes (same type and index?); ibv_rc_pingpong -g INDEX PEER; ibstat",
        mend=(
            "NCCL_IB_GID_INDEX of the RoCE v2 entry (or NCCL 2.21+ that finds it); open UDP 4791"
            " in switch ACLs and security groups."
        ),
        source="NVIDIA/nccl#426, #1131, #1664; host firewalls do not see RDMA",
        looks=(
            (
                "NET/IB : Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698"
                " len=32696 vendor err 129 (Send)"
            ),
        ),
        patterns=(
            Pattern(
                "Got completion",
                r"Got completion (?:from peer (?P<peer>[^\s<]{1,60})\S{0,10} )?with (?:status=|error )12\b",
            ),
            Pattern(
                "vendor err 129",
                r"Got completion (?:from peer (?P<peer>[^\s<]{1,60}))?.{0,200}vendor err 129",
            ),
            Pattern(
                "ibv_modify_qp failed",
                r"ibv_modify_qp failed with (?:error )?\D{0,3}\d{0,4}\s?(?:Connection timed out|No such device"
                r"|Network is unreachable|Invalid argument)(?P<peer>)",
            ),
        ),
        key=("peer",),
        derive=some_peer,
        weight=82,
    ),
    Cause(
        code="LG-413",
        title="NCCL: locked memory is limited (memlock)",
        says="RDMA could not register memory: the limit for locked memory (memlock) is too small for this process.",
        where="the node of this log, in the job's own unit or container",
        prove="in the job's environment: ulimit -l (must say unlimited); systemctl show UNIT -p LimitMEMLOCK",
        mend=(
            "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 for the container;"
            " ./fullmesh apply -- --tags tuning for logins."
        ),
        source="NVIDIA/nccl-tests#206, NVIDIA/nccl#380",
        looks=(
            "node1:1:2 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        ),
        patterns=(
            Pattern("ibv_", r"ibv_(?:reg_mr|create_cq|create_qp)\w* .{0,60}Cannot allocate memory"),
        ),
        weight=90,
    ),
    Cause(
        code="LG-414",
        title="NCCL: /dev/shm is full",
        says=(
            "NCCL could not make its shared memory in /dev/shm{detail}: containers have 64 MB"
            " unless told otherwise."
        ),
        where="the node of this log, inside the job's container",
        prove="in the container: df -h /dev/shm; ls -l /dev/shm | head (files of dead jobs?)",
        mend=(
            "--shm-size=8g or --ipc=host; Kubernetes: emptyDir with medium Memory at /dev/shm;"
            " remove old nccl-* files."
        ),
        source="NVIDIA/nccl#290, #342, #525",
        looks=(
            (
                "node1:202016:202235 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend"
                " /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)"
            ),
        ),
        patterns=(
            Pattern(
                "failed to extend /dev/shm",
                r"failed to extend /dev/shm/\S{1,40}(?P<detail> to \d+ bytes)",
            ),
            Pattern(
                "while creating shared memory segment",
                r"while creating shared memory segment \S{1,60}(?P<detail> \(size \d+\))",
            ),
            Pattern(
                "posix_fallocate failed",
                r"posix_fallocate failed : No space left on device(?P<detail>)",
            ),
        ),
        weight=92,
    ),
    Cause(
        code="LG-415",
        title="NCCL: a collective ran into its timeout (watchdog)",
        says="Rank {rank} waited in {operation} number {number} until the watchdog's timeout of {timeout} ms.",
        where="a rank that does not log this, or that is at a lower number",
        prove=(
            "give explain-log the logs of all ranks; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and"
            " TORCH_NCCL_DUMP_ON_TIMEOUT=1 write what each rank did"
        ),
        mend=(
            "Mend the rank that is behind; a longer timeout only helps when one rank really"
            " works longer (checkpoint, evaluation)."
        ),
        source="hiyouga/LlamaFactory#7396, pytorch/pytorch#118369",
        looks=(
            "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught"
            " collective operation timeout:"
            " WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168,"
            " Timeout(ms)=600000) ran for 600060"
            " milliseconds before timing out.",
        ),
        patterns=(
            Pattern(
                "caught collective operation timeout",
                r"\[Rank (?P<rank>\d+)\].{0,40}caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d+),"
                r" OpType=(?P<operation>\w+),.{0,120}?Timeout\(ms\)=(?P<timeout>\d+)",
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
        weight=60,
    ),
    Cause(
        code="LG-416",
        title="ranks called different collectives",
        says="The ranks called different collectives as number {number}: {operations}.",
        where="the ranks that went another way through the program: {ranks}",
        prove="TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective and names the line",
        mend=(
            "No collective inside 'if rank == 0' or in a loop whose length differs (uneven data:"
            " use join or drop_last)."
        ),
        source="NVIDIA/nccl#1409 (BROADCAST against ALLREDUCE); torch's flight recorder docs",
        looks=(),
        patterns=(),
        weight=81,
    ),
    Cause(
        code="LG-417",
        title="torch saw ranks call different collectives",
        says="torch compared the collectives and they differ: rank {rank} is running {detail}.",
        where="the ranks that the message names",
        prove=(
            "the message stands in every rank's log; compare the lines of code they name with"
            " TORCH_SHOW_CPP_STACKTRACES=1"
        ),
        mend="No collective inside 'if rank == 0'; the same order, shapes and types on every rank.",
        source="read: torch ProcessGroupWrapper.cpp (TORCH_DISTRIBUTED_DEBUG=DETAIL)",
        looks=(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective:"
            " CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[10]), but"
            " Rank 1 is running collective:"
            " CollectiveFingerPrint(SequenceNumber=3, OpType=REDUCE).",
        ),
        patterns=(
            Pattern(
                "Detected mismatch between collectives",
                (
                    r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,7}) is running"
                    r" (?P<detail>.{1,190})"
                ),
            ),
        ),
        weight=86,
    ),
    Cause(
        code="LG-419",
        title="EFA: the security group lacks its rule for itself",
        says=(
            "EFA got no answer from its peer (4126 Unresponsive receiver): the security group"
            " must allow all traffic to and from itself."
        ),
        where="the security group of the instances, not a host",
        prove=(
            "aws ec2 describe-security-groups: ingress AND egress with protocol -1 and its own"
            " group id (0.0.0.0/0 is not enough)"
        ),
        mend="Add both self rules by group id.",
        source="aws/aws-ofi-nccl#663, gardener/gardener-extension-provider-aws#1832",
        looks=(
            (
                "node1:1:2 [0] NCCL WARN NET/OFI Request completed with error. RC: 4. Error: 4126"
                " (Unresponsive receiver)"
            ),
        ),
        patterns=(
            Pattern("nresponsive receiver"),
            Pattern("4126", r"NET/OFI.{0,200}\b4126\b"),
        ),
        weight=90,
    ),
    Cause(
        code="LG-420",
        title="EFA: the NCCL plugin is missing although EFA is wanted",
        says=(
            "The job asks for EFA ({detail}), but NCCL found no libnccl-net plugin and goes over"
            " plain sockets or fails."
        ),
        where="the node of this log",
        prove="ldconfig -p | grep nccl-net; fi_info -p efa; NCCL_DEBUG=INFO must say NET/OFI",
        mend="Install aws-ofi-nccl for the NCCL that torch loads and put it on LD_LIBRARY_PATH.",
        source="read: nccl plugin_open.cc:97-128; aws/aws-ofi-nccl",
        looks=(),
        patterns=(),
        weight=77,
    ),
    Cause(
        code="LG-421",
        title="NCCL: a remote rank ended",
        says="A connection was closed by the other side ({detail}): another rank ended first.",
        where="the rank at the other end",
        prove="give explain-log the logs of all ranks; look for the rank whose log ends first",
        mend="Mend what ended the other rank; this message is its echo.",
        source="NVIDIA/nccl#1232",
        looks=(
            (
                "node1:39964:40044 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed"
                " by remote peer node1<57557>"
            ),
        ),
        patterns=(
            Pattern(
                "Connection closed by remote peer",
                r"Connection closed by remote peer (?P<detail>[^\s]{1,120})",
            ),
            Pattern(
                "remote process exited or there was a network error",
                r"(?P<detail>remote process exited or there was a network error)",
            ),
            Pattern(
                "Socket recv failed while polling", r"(?P<detail>Socket recv failed while polling)"
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE, "LG-405"),
    ),
    Cause(
        code="LG-422",
        title="NCCL: a system call failed and the log does not say which",
        says="NCCL failed with '{detail}'; the reason stands in a line with NCCL WARN.",
        where="the node of this log",
        prove=(
            "run again with NCCL_DEBUG=WARN (or INFO with NCCL_DEBUG_SUBSYS=INIT,NET,ENV) and"
            " give explain-log that log"
        ),
        mend="What the NCCL WARN line says.",
        source="read: ProcessGroupNCCL's error texts",
        looks=(
            (
                "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275,"
                " unhandled system error (run with NCCL_DEBUG=INFO for details)"
            ),
        ),
        patterns=(
            Pattern(
                "NCCL error",
                r"NCCL error.{0,200}?(?P<detail>unhandled (?:system|cuda) error|internal error|invalid usage)",
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE, "LG-405", "LG-421", "LG-415"),
        key=("detail",),
    ),
    Cause(
        code="LG-423",
        title="nodes run different NCCL versions",
        says="The logs show different NCCL versions: {versions}.",
        where="the node whose version differs",
        prove="./fullmesh verify -i INVENTORY (VC-104); python -c 'import torch; print(torch.cuda.nccl.version())'",
        mend="One lock file and one NCCL for all nodes (roles torch_runtime, nccl).",
        source="NVIDIA/nccl#1328; pytorch/pytorch#122571 (the wheel uses its own NCCL)",
        looks=(),
        patterns=(),
        weight=83,
    ),
    Cause(
        code="LG-424",
        title="NCCL: nodes announce addresses that cannot reach each other",
        says="NCCL's nodes announce addresses of different kinds: {addresses}.",
        where="the node whose address is not of the cluster's network",
        prove="./fullmesh verify -i INVENTORY (VC-601)",
        mend=(
            "./fullmesh apply -i INVENTORY -- --tags launch (NCCL_SOCKET_IFNAME and"
            " NCCL_SOCKET_FAMILY for each node)."
        ),
        source="measured with the library 2.32.3: a downed interface silently gives the next one; NVIDIA/nccl#210",
        looks=(),
        patterns=(),
        needs=BAD_NETWORK,
        weight=79,
    ),
    Cause(
        code="LG-425",
        title="NCCL: a connection of the wrong kind came in",
        says=(
            "A rank connected to the wrong listener ({detail}): left-over processes of another"
            " run, or nodes with different NCCL settings."
        ),
        where="a node with an older process of the job, or other NCCL_ settings",
        prove="on all nodes: pgrep -af python; env | grep ^NCCL_ | sort (compare)",
        mend="End left-over processes; one environment for all nodes.",
        source="NVIDIA/nccl-tests#188",
        looks=(
            "user:16899:16961 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
        ),
        patterns=(
            Pattern(
                "socketFinalizeAccept: wrong",
                r"socketFinalizeAccept: (?P<detail>wrong type [^\n]{1,60})",
            ),
        ),
        weight=70,
    ),
    Cause(
        code="LG-426",
        title="EFA: what hangs after 'Could not find a path for pattern' is most often the security group",
        says=(
            "NCCL uses EFA, found no path for pattern {pattern} (that alone costs speed only) and never said that its"
            " rings are connected: where the job hangs or times out after it, the security group does not let EFA"
            " through."
        ),
        where="the security group of the instances, not a host",
        prove=(
            "./fullmesh diagnose -i INVENTORY, or aws ec2 describe-security-groups: ingress AND egress with protocol -1"
            " and its own group id (0.0.0.0/0 is not enough)"
        ),
        mend=(
            "Allow all traffic from and to the group itself, both rules by group id: ansible-playbook playbooks/ec2.yml"
            " with ec2_security_group_mode: efa (docs/ec2.md)."
        ),
        source="read: nccl search.cc:1293; aws/aws-ofi-nccl#64, #663; AWS's EFA guide (security group)",
        looks=(),
        patterns=(),
        # a guess from what is missing in the log: whatever says more comes above it
        follows=(ANY_CAUSE,),
        weight=42,
    ),
    Cause(
        code="LG-901",
        title="harmless: NCCL has no network plugin",
        says=(
            "NCCL looked for a vendor's network plugin (libnccl-net.so), found none and uses its"
            " own; only EFA and some fabrics need one."
        ),
        prove="NCCL_DEBUG=INFO: the line 'Using network' says what is used instead",
        mend="Nothing to do; on AWS with EFA install aws-ofi-nccl (then it is LG-420).",
        source="read: nccl plugin_open.cc:97-128",
        looks=(
            "node1:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
            "node1:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
            (
                "node1:1:1 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 :"
                " libnccl-net.so: cannot open shared object file: No such file or directory"
            ),
        ),
        patterns=(
            Pattern("No plugin found"),
            Pattern("libnccl-net", r"Could not find: .{0,80}libnccl-net"),
            Pattern("libnccl-net", r"libnccl-net[\w.-]*: cannot open shared object file"),
            Pattern("NET/Plugin: Failed to find ncclNetPlugin"),
        ),
        severity=Severity.HARMLESS,
    ),
    Cause(
        code="LG-902",
        title="harmless: NCCL found no path for a pattern and takes a simple order",
        says=(
            "NCCL's search found no path for pattern {pattern} and took a simple order: it may"
            " cost speed, it breaks nothing."
        ),
        prove="all_reduce_perf of nccl-tests, or ./fullmesh verify (rung L5) shows what the links give",
        mend=(
            "Nothing to do; on EFA or in a VM give NCCL the machine's topology (NCCL_TOPO_FILE). A job on EFA that"
            " hangs after it: LG-426."
        ),
        source="read: nccl search.cc:1293 (WARN up to 2.26, INFO in 2.30); NVIDIA/nccl#487",
        looks=(
            (
                "node1:2374:2645 [0] graph/search.cc:1127 NCCL WARN Could not find a path for"
                " pattern 4, falling back to simple order"
            ),
        ),
        patterns=(
            Pattern(
                "Could not find a path for pattern",
                r"Could not find a path for pattern (?P<pattern>\d+)",
            ),
        ),
        severity=Severity.HARMLESS,
    ),
    Cause(
        code="LG-903",
        title="harmless: NCCL found no InfiniBand or RoCE device",
        says=(
            "NCCL found no InfiniBand or RoCE device and uses sockets: slower, not broken. With"
            " such a card in the node it is worth a look."
        ),
        prove="ls /sys/class/infiniband; ibstat",
        mend="Nothing without such a card; else install its driver and give the container /dev/infiniband.",
        source="read: nccl net_ib",
        looks=("node1:920:1145 [1] NCCL INFO NET/IB : No device found.",),
        patterns=(Pattern("NET/IB : No device found"),),
        severity=Severity.HARMLESS,
    ),
    Cause(
        code="LG-904",
        title="harmless: NCCL discarded a stray connection",
        says=(
            "Something connected to NCCL's port that is not of this job (a port scanner, a"
            " monitor) and was discarded."
        ),
        prove="ss -tnp on the node while it happens; who scans the data ports?",
        mend="Nothing to do; role peer_firewall keeps strangers out of the data range.",
        source="measured with the library 2.32.3, which survives it",
        looks=(
            "node1:1:2 [0] NCCL INFO socketFinalizeAccept: socket connected with magic mismatch, discarding",
        ),
        patterns=(
            Pattern("magic mismatch", r"magic mismatch.{0,40}discard"),
            Pattern("socketFinalizeAccept: wrong magic"),
        ),
        severity=Severity.HARMLESS,
    ),
)
