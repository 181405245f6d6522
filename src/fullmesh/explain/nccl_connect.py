"""What NCCL says until its ranks are connected (sources: those of nccl.py)."""

from __future__ import annotations

from dataclasses import replace

from fullmesh.explain.derive import derive_invalid_rank, derive_nccl_remote
from fullmesh.explain.model import ANY_CAUSE, ExplainOptions, Fields, LogCause, Pattern, Severity

INSIDE = r"(?:lo|docker|br-|virbr|veth|cni|flannel|cali|tailscale|podman|lxc)"
ADDRESS = r"(?P<peer>[^\s<>]{1,120})<(?P<port>\d{1,5})>"
LINKS = "./fullmesh verify -i INVENTORY (rung L2, both directions: NCCL connects either way"
FIREWALL = "./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the port range and opens it to the peers)"
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


def build_connect_patterns(words: str) -> tuple[Pattern, ...]:
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


def derive_nccl_retry(fields: Fields, options: ExplainOptions) -> Fields | None:
    """An old NCCL's retry line has no address."""
    return (
        derive_nccl_remote(fields, options)
        if fields["port"]
        else {**fields, "peer": "a peer", "port_note": ""}
    )


def derive_log_host(fields: Fields, _options: ExplainOptions) -> Fields:
    """Lines that were cut have no host."""
    host = fields["host"]
    return {
        **fields,
        "host": host or "the node of this log",
        "on_host": f" on {host}" if host else "",
    }


REJECTED = LogCause(
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
    fix=FIREWALL,
    source="read: nccl os/linux.cc:277-306, socket.cc; sgl-project/sglang#3820, NVIDIA/nccl#388",
    looks=(
        "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to"
        " 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)",
    ),
    patterns=build_connect_patterns("No route to host"),
    follows=(*CRASHES, "LG-406", "LG-410", "LG-424", "LG-429", "LG-508"),
    key=("peer",),
    derive=derive_nccl_retry,
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
    patterns=build_connect_patterns("Connection refused"),
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
    patterns=build_connect_patterns("Connection timed out"),
    weight=74,
)

CAUSES = (
    LogCause(
        code="LG-401",
        title="NCCL: a rank number beyond the world size",
        says=(
            "A process called itself rank {rank} of {size}: RANK and WORLD_SIZE do not fit"
            " (world size of one node given to all nodes?)."
        ),
        where="the launcher of the node of this log",
        prove="on that node: env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|NODE_RANK)'",
        fix=(
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
        derive=derive_invalid_rank,
        weight=95,
    ),
    REJECTED,
    REFUSED,
    DROPPED,
    LogCause(
        code="LG-405",
        title="NCCL: a retried connection was aborted; the first error says why",
        says=(
            "NCCL's second try to connect to {peer} was aborted; that is a bug in its error"
            " handling, the first error is the cause."
        ),
        where="the node that has the address {peer}",
        prove=f"NCCL_DEBUG=INFO, and read the first error; {LINKS})",
        fix=f"{FIREWALL}; NCCL 2.24 and newer say the reason.",
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
    LogCause(
        code="LG-406",
        title="NCCL: NCCL_SOCKET_IFNAME matches no interface",
        says=(
            "NCCL found no interface for its bootstrap: NCCL_SOCKET_IFNAME matches none that is up on this node, or"
            " the container has none but loopback."
        ),
        where="the node of this log",
        prove=(
            "on that node: ip -brief link; env | grep NCCL_SOCKET_IFNAME; ./fullmesh verify -i"
            " INVENTORY (VC-601, VC-603)"
        ),
        fix="./fullmesh apply -i INVENTORY --tags launch (role cluster_env sets each node's own interface).",
        source="measured with the library 2.32.3; NVIDIA/nccl#1837 (before 2.28 a nonsense address family), #1267",
        looks=(
            "node1:1:1 [0] bootstrap.cc:94 NCCL WARN Bootstrap : no socket interface found",
            "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        ),
        patterns=(
            Pattern("no socket interface found"),
            Pattern("is neither AF_INET(2) nor AF_INET6(10)"),
            Pattern("no NCCL_SOCKET_IFNAME interface found"),
            # NCCL before 2.5 went on without an interface
            Pattern("Socket creation failed : Address family not supported"),
        ),
        weight=92,
    ),
    LogCause(
        code="LG-407",
        title="NCCL: one rank number came twice",
        says="Rank {rank} of {size} checked in twice: two processes have the same RANK.",
        where="the two processes with RANK {rank}",
        prove="on all nodes: env | grep -E '^(RANK|NODE_RANK)'; pgrep -af torchrun",
        fix="Every node needs its own node rank (fullmesh_node_rank); end processes of an earlier try.",
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
    LogCause(
        code="LG-408",
        title="NCCL: ranks disagree on the world size",
        says="The ranks came with different world sizes ({detail}).",
        where="the node whose WORLD_SIZE differs",
        prove="on all nodes: env | grep -E '^(WORLD_SIZE|NNODES)'",
        fix="One environment for all nodes: ./fullmesh apply -i INVENTORY --tags launch.",
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
    LogCause(
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
        fix="One NCCL for all nodes (roles nccl, torch_runtime), one environment (role cluster_env).",
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
    LogCause(
        code="LG-410",
        title="NCCL: it chose an interface that the peers cannot reach",
        says="NCCL{on_host} took {interface} ({address}), an interface of containers or of this host alone.",
        where="{host}",
        prove="./fullmesh verify -i INVENTORY (VC-601 asks the real library without a GPU)",
        fix=(
            "./fullmesh apply -i INVENTORY --tags launch, or export"
            " NCCL_SOCKET_IFNAME==INTERFACE (one = more means the exact name)."
        ),
        source="measured with the library 2.32.3; NVIDIA/nccl#697, #913, #286, gpustack/gpustack#2275",
        looks=("node1:12:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>",),
        patterns=(
            Pattern(
                "Bootstrap : Using ",
                r"(?P<host>[^\s:]{1,120}):\d+:\d+ \[\d+\] NCCL INFO Bootstrap : Using (?:\[0\])?"
                rf"(?P<interface>{INSIDE}[^\s:]{{0,16}}):(?P<address>[^\s<]{{1,60}})<",
            ),
            # sockets go over every interface of the list, not over the first one alone
            Pattern(
                "NET/Socket : Using ",
                r"(?:(?P<host>[^\s:]{1,120}):\d+:\d+ \[\d+\] NCCL )?INFO NET/Socket : Using .{0,1000}?\[\d{1,2}\]"
                rf"(?P<interface>{INSIDE}[^\s:]{{0,16}}|[^\s:]{{1,16}}(?=:fe80:)):(?P<address>[^\s<]{{1,60}})<",
            ),
        ),
        key=("host", "interface"),
        derive=derive_log_host,
        needs=BAD_NETWORK,
        weight=89,
    ),
    LogCause(
        code="LG-429",
        title="NCCL: it tries to reach a link-local address",
        says=(
            "NCCL's connection to {peer} failed, and that is a link-local address (169.254.0.0/16 or fe80::/10): a"
            " node announced an interface without an address of the cluster, such as a BMC's, a local DNS cache's or an"
            " unconfigured cable's."
        ),
        where="the node that announced {peer}",
        prove="on every node: ip -brief addr | grep -E '169.254|fe80'; ./fullmesh verify -i INVENTORY (VC-601)",
        fix=(
            "Set NCCL_SOCKET_IFNAME to the cluster's interface on each node: ./fullmesh apply -i INVENTORY -- --tags"
            " launch (role cluster_env)."
        ),
        source="sgl-project/sglang#6017, uccl-project/uccl#1034",
        looks=(
            "node1:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 169.254.20.10<43369> failed :"
            " Network is unreachable",
        ),
        patterns=(
            Pattern(
                "onnect to ",
                r"[Cc]onnect to (?P<peer>169\.254\.[\d.]{3,7}|fe80:[^\s<]{1,60})<\d{1,5}> (?:failed|returned)",
            ),
        ),
        follows=("LG-410", "LG-424"),
        key=("peer",),
        weight=87,
    ),
    LogCause(
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
        fix=(
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
)
