"""What c10d's TCPStore and its sockets say (measured with torch 2.13; sources: pytorch socket.cpp, TCPStore*.cpp).

A table, one entry a cause, so longer than other files.
"""

from __future__ import annotations

from fullmesh.explain.derive import (
    derive_c10d_errno,
    derive_fixed_store,
    derive_hidden_store,
    derive_joined_ranks,
    derive_lookup_failure,
    derive_loopback_store,
    derive_low_somaxconn,
)
from fullmesh.explain.model import ANY_CAUSE, LogCause, Pattern, Severity

# "(host, port)", and "host:port" before torch 2.0
TARGET = r"\(?\[?(?P<host>[^\s,()\[\]]{1,120}?)\]?(?:, |:)(?P<port>\d{1,5})\)?(?=[\s.;)]|$)"
CLIENT = (
    Pattern(
        "client socket has timed out after",
        rf"client socket has timed out after \d+ ?m?s while trying to connect to {TARGET}",
    ),
    Pattern(
        "failed to connect to any network address of",
        rf"failed to connect to any network address of {TARGET}",
    ),
)
TIMED_OUT = (
    "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms while"
    " trying to connect to ({}, {})."
)
L3 = "./fullmesh verify -i INVENTORY (rung L3 uses the store from every rank: VC-301)"
CRASHES = ("LG-305", "LG-306", "LG-307", "LG-312", "LG-319", "LG-501", "LG-504", "LG-509", "LG-510")

CAUSES = (
    LogCause(
        code="LG-201",
        title="store: not all ranks reached rank 0",
        says=(
            "Rank 0 waited {seconds} s and not all ranks reached its store (came: {came}): the master port is"
            " blocked, MASTER_ADDR or MASTER_PORT differ on a node, WORLD_SIZE is too large, or a rank ended before."
        ),
        where=(
            "the rank(s) that did not come, or the firewall of rank 0's node; not the"
            " rank that printed this"
        ),
        prove=f"{L3}; on each node: env | grep -E '^(MASTER_|RANK|WORLD_SIZE)'; on rank 0's node: ss -ltn",
        fix=(
            "./fullmesh apply -i INVENTORY --tags firewall,launch (opens the master port to"
            " the peers, one environment for all)."
        ),
        source="measured; OpenRLHF/OpenRLHF#1040; timeout 1800 s + 1 s = 1801",
        looks=(
            "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.",
        ),
        patterns=(
            Pattern(
                "seconds waiting for clients",
                # logs and error boxes cut the numbers off; other programs go on with a word ("clients to leave")
                (
                    r"Timed out after (?P<seconds>\d{1,9}) seconds waiting for clients"
                    r"(?:\. (?P<some>\d{1,9})/(?P<all>\d{1,9}) clients joined|(?![\w-]|[,;]? +[a-z]))"
                ),
            ),
        ),
        follows=(
            "LG-110",
            "LG-202",
            "LG-203",
            "LG-204",
            "LG-205",
            "LG-206",
            "LG-209",
            "LG-213",
            "LG-214",
            "LG-311",
            "LG-401",
            *CRASHES,
        ),
        derive=derive_joined_ranks,
        weight=50,
    ),
    LogCause(
        code="LG-202",
        title="store: a rank cannot reach the store's port",
        says=(
            "A rank could not reach {kind} at {host}:{port}: it is blocked, no rank 0 listens there, or the"
            " address is wrong."
        ),
        where="the firewall of {host} (or rank 0, if it never started there); the log is the client's",
        prove=(
            f"{L3}; on {{host}} while the job starts: ss -ltnp 'sport = :{{port}}'; without a"
            " listener read rank 0's log"
        ),
        fix=(
            "./fullmesh apply -i INVENTORY --tags firewall (opens it to the peers);"
            " MASTER_PORT must be the same on all nodes."
        ),
        source="measured: drop, reset and icmp reject of port 29500; OpenRLHF/OpenRLHF#1040",
        looks=(
            TIMED_OUT.format("node1", 29500),
            "The client socket has failed to connect to any network address of (node1, 29500).",
        ),
        patterns=CLIENT,
        follows=("LG-206", "LG-209", "LG-213", "LG-214", "LG-508"),
        key=("host", "port"),
        derive=derive_fixed_store,
        weight=66,
    ),
    LogCause(
        code="LG-203",
        title="torchrun: the hidden random port of the c10d rendezvous is blocked",
        says=(
            "{host}:{port} cannot be reached, a port of the kind that the kernel"
            " picks. Unless you chose it: torchrun"
            " --rdzv-backend=c10d opens a second store on a random port, so opening 29400 and 29500 is not enough."
        ),
        where="the firewall of {host}, or its port range",
        prove=(
            "on {host}: sysctl net.ipv4.ip_local_port_range; ./fullmesh verify -i INVENTORY"
            " (VC-107, VC-201 to VC-203)"
        ),
        fix=(
            "./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the range and opens"
            " it), or torchrun --master-addr/--master-port."
        ),
        source=(
            "measured: (node-h7, 40685);"
            " torch/distributed/elastic/rendezvous/dynamic_rendezvous.py server_port = 0"
        ),
        looks=(TIMED_OUT.format("node-h7", 40685),),
        patterns=CLIENT,
        follows=("LG-206", "LG-508"),
        key=("host", "port"),
        derive=derive_hidden_store,
        weight=78,
    ),
    LogCause(
        code="LG-204",
        title="store: a rank looks for rank 0 on its own node (localhost)",
        says=(
            "A rank looked for the store at {host}:{port}, that is on its own node: MASTER_ADDR"
            " is or resolves to loopback."
        ),
        where="the node of this log",
        prove=(
            'on that node: echo "$MASTER_ADDR"; getent ahosts "$MASTER_ADDR"; ./fullmesh verify'
            " -i INVENTORY (VC-101)"
        ),
        fix=(
            "MASTER_ADDR must be rank 0's cluster address on every node: ./fullmesh apply -i"
            " INVENTORY --tags network,launch."
        ),
        source="measured",
        looks=(TIMED_OUT.format("localhost", 29500),),
        patterns=CLIENT,
        follows=("LG-213", "LG-214"),
        key=("host", "port"),
        derive=derive_loopback_store,
        weight=86,
    ),
    LogCause(
        code="LG-205",
        title="store: connections to the store are rejected, refused, dropped or without a route",
        says="Connections to {target} are {verdict}.",
        where="the node of rank 0 (its firewall, or nothing listens there); the line '(host, port)' near it names it",
        prove=f"{L3}; on rank 0's node: ss -ltnp; ip neigh show tells an absent host (FAILED) from a rejecting one",
        fix=(
            "./fullmesh apply -i INVENTORY --tags network,firewall; an unused MASTER_ADDR:"
            " set it to rank 0's address."
        ),
        source=(
            "measured; c10d prints nonsense like 215.85.0.0:22671 for 10.77.0.13:29500 when the"
            " reverse lookup fails"
        ),
        looks=(
            (
                "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node1]:29500"
                " (errno: 113 - No route to host)."
            ),
            (
                "[W socket.cpp:697] [c10d] The client socket has failed to connect to"
                " 215.85.0.0:22671 (errno: 113 - No route to host)."
            ),
        ),
        patterns=(
            Pattern(
                "failed to connect to",
                r"client socket has failed to connect to (?P<peer>\S{1,120}) \(errno: (?P<errno>\d{1,4}) ",
            ),
        ),
        follows=("LG-202", "LG-203", "LG-204", "LG-206", "LG-213", "LG-214", "LG-508"),
        key=("errno",),
        derive=derive_c10d_errno,
        needs=("LG-201", "LG-202", "LG-203", "LG-204", "LG-301", "LG-302"),
        weight=72,
    ),
    LogCause(
        code="LG-206",
        title="store: MASTER_ADDR cannot be resolved",
        says="The name {host} cannot be resolved ({reason}).",
        where="the node of this log",
        prove="on that node: getent ahosts {host}; ./fullmesh verify -i INVENTORY (VC-101)",
        fix="./fullmesh apply -i INVENTORY --tags network (writes every peer into /etc/hosts).",
        source="measured: gai error -3, the timeout stretches up to 2.5 times; modelscope/ms-swift#6368",
        looks=(
            "[W socket.cpp:601] [c10d] The IPv4 network addresses of (node1, 29500) cannot be"
            " retrieved (gai error: -3 -"
            " Temporary failure in name resolution).",
        ),
        patterns=(
            Pattern(
                "cannot be retrieved (gai error",
                (
                    rf"The (?:IPv4 )?network addresses of {TARGET} cannot be retrieved \(gai error: "
                    rf"(?P<reason>-?\d+ - [^)]{{1,80}})"
                ),
            ),
            Pattern(
                "gai error: -",
                r"(?<!retrieved \()gai error: (?P<reason>-\d+ - [^)]{1,80})(?P<host>)",
            ),
            # torch up to 1.x
            Pattern(
                "host not found: ",
                r"ValueError: host not found: (?P<reason>[^\n]{1,80})(?P<host>)",
            ),
        ),
        key=("host",),
        derive=derive_lookup_failure,
        weight=87,
    ),
    LogCause(
        code="LG-209",
        title="store: the master port is not the same on every node",
        says="The ranks look for the store at different places: {places}.",
        where="the node whose MASTER_ADDR or MASTER_PORT differs",
        prove="on each node: env | grep ^MASTER_",
        fix="./fullmesh apply -i INVENTORY --tags launch (one environment for all nodes).",
        source="measured",
        looks=(),
        patterns=(),
        weight=80,
    ),
    LogCause(
        code="LG-210",
        title="store: a rank never published its Gloo address",
        says=(
            "Rank {rank} never published its Gloo address: it was not started (or WORLD_SIZE is"
            " too large), ended before, or"
            " could not open a listener."
        ),
        where="rank {rank}",
        prove="read the log of rank {rank}; ./fullmesh verify -i INVENTORY (VC-303 died, VC-304 never started)",
        fix="Start every rank from 0 to WORLD_SIZE-1 exactly once; no two nodes may have the same node rank.",
        source="measured: the last number of the missing key is the rank",
        looks=(
            "torch.distributed.DistStoreError: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/2",
        ),
        patterns=(
            Pattern(
                "wait timeout after",
                r"wait timeout after \d+ ?ms, keys: \S{0,200}//(?:cpu|gloo)\S{0,80}/(?P<rank>\d{1,7})(?![\w/])",
            ),
        ),
        follows=(
            "LG-108",
            "LG-110",
            "LG-116",
            "LG-201",
            "LG-202",
            "LG-203",
            "LG-204",
            "LG-206",
            "LG-401",
            *CRASHES,
        ),
        key=("rank",),
        weight=60,
    ),
    LogCause(
        code="LG-211",
        title="store: a key never came",
        says=(
            "A rank waited for the key {key} in the store and nobody wrote it: another rank"
            " ended or never got there."
        ),
        where="a rank without this line in its log",
        prove="give explain-log the logs of all ranks; ./fullmesh verify -i INVENTORY (VC-303, VC-304)",
        fix="Fix the rank that is missing; give init_process_group a short timeout so that it shows earlier.",
        source="read: TCPStore.cpp",
        looks=(
            (
                "torch.distributed.DistStoreError: wait timeout after 600000ms, keys:"
                " /default_pg/0/store_based_barrier_key:1/last_worker"
            ),
        ),
        patterns=(
            Pattern(
                "wait timeout after",
                (
                    r"wait timeout after \d+ ?ms, keys:"
                    r" (?!\S{0,200}//(?:cpu|gloo)\S{0,80}/\d{1,7}(?![\w/]))(?P<key>\S{1,200})"
                ),
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE, "LG-210"),
        key=("key",),
    ),
    LogCause(
        code="LG-212",
        title="store: rank 0 never published NCCL's id",
        says=(
            "Rank {rank} waited for NCCL's id, which rank {root} has to write: that rank ended,"
            " hangs before its first collective, or works longer than the timeout before it (it alone tokenizes a"
            " dataset, loads a checkpoint)."
        ),
        where="rank {root}",
        prove="read the log of rank {root} from its end; py-spy dump --pid PID while it hangs",
        fix=(
            "Fix rank {root}; each rank must use the same process group in the same order. Long work of one rank"
            " belongs before the launch, or the timeout of init_process_group grows."
        ),
        source="read: ProcessGroupNCCL.cpp broadcastUniqueNCCLID",
        looks=(
            "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and"
            " retrieving ncclUniqueId from [0] via c10d"
            " key-value store by key '0', but store->get('0') got error: Connection reset by peer",
        ),
        patterns=(
            # torch up to 2.1 spelt it so
            *(
                Pattern(
                    f"{verb} ncclUniqueId from",
                    rf"\[(?P<rank>\d+)\] is setting up NCCL communicator and {verb} ncclUniqueId from"
                    r" \[(?P<root>\d+)\]",
                )
                for verb in ("retrieving", "retreiving")
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
        key=("root",),
    ),
    LogCause(
        code="LG-213",
        title="store: the master port is in use",
        says=(
            "Port {port} on rank 0's node is taken by another process (an earlier job that did"
            " not end, or an outgoing connection)."
        ),
        where="the node of this log (rank 0's node, or a node that wrongly believes to be it)",
        prove="on that node: ss -ltnp 'sport = :{port}' (names the process); sysctl net.ipv4.ip_local_reserved_ports",
        fix=(
            "End the old process or choose another port; ./fullmesh apply --tags tuning keeps"
            " named ports out of the kernel's hands."
        ),
        source="measured; pytorch/pytorch#126510, #73320; onedr0p/home-ops#11712",
        looks=(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any"
            " local network address. port: 29500,"
            " useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            (
                "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500"
                " (errno: 98 - Address already in use)."
            ),
        ),
        patterns=(
            Pattern(
                "name: EADDRINUSE",
                r"port: (?P<port>\d{1,5}), useIpv6: \w+, code: -\d+, name: EADDRINUSE",
            ),
            Pattern("(errno: 98", r"failed to bind to \S{0,100}:(?P<port>\d{1,5}) \(errno: 98"),
        ),
        key=("port",),
        weight=93,
    ),
    LogCause(
        code="LG-214",
        title="store: something that is no TCPStore answers on the master port",
        says="A foreign service answered on the store's port (expected {expected}, got {got}).",
        where="rank 0's node, or the address in MASTER_ADDR is another machine",
        prove="on rank 0's node: ss -ltnp (which process has the master port)",
        fix="Choose a free MASTER_PORT, or end the service; check that MASTER_ADDR is rank 0's node.",
        source="measured",
        looks=(
            "RuntimeError: Ping failed, invalid value returned from server. Expected: 16938, Got: 759714643",
        ),
        patterns=(
            Pattern(
                "Ping failed, invalid value",
                (
                    r"Ping failed, invalid value returned from server\. Expected: (?P<expected>-?\d+),"
                    r" Got: (?P<got>-?\d+)"
                ),
            ),
        ),
        weight=93,
    ),
    LogCause(
        code="LG-215",
        title="store: the connection to rank 0's store was lost",
        says="The store at rank 0 went away while a rank used it: rank 0 (or its agent) ended first.",
        where="rank 0's node",
        prove="read rank 0's log from its end; on its node: dmesg -T | tail; journalctl -k --since -1h",
        fix="Fix what ended rank 0; this message is its echo.",
        source="read: pytorch TCPStore.cpp, TCPStoreLibUvBackend.cpp; pytorch/pytorch#121944",
        looks=(
            "[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3,"
            " addr=[node2]:40000, remote=[node1]:29500): failed to"
            " recv, got 0 bytes",
        ),
        patterns=(
            Pattern("recvValue failed on SocketImpl"),
            Pattern("sendBytes failed on SocketImpl"),
            Pattern("failed to recv, got 0 bytes"),
            Pattern(
                "Connection reset by peer",
                r"(?:RuntimeError|DistNetworkError): (?:\[\d+\] )?Connection reset by peer",
            ),
            Pattern("Broken pipe", r"(?:RuntimeError|DistNetworkError): (?:\[\d+\] )?Broken pipe"),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
    ),
    LogCause(
        code="LG-216",
        title="store: this torch is built without libuv",
        says=(
            "torch's store was asked to use libuv (the default since torch 2.4), and this torch is built without it,"
            " as torch's wheels for Windows are."
        ),
        where="the node of this log",
        prove="python -c 'import torch; print(torch.__version__)'",
        fix=(
            "Set USE_LIBUV=0 for torchrun and every rank (or ?use_libuv=0 in the init method), or use a"
            " torch with libuv."
        ),
        source="pytorch/pytorch#148283; read: torch/distributed/rendezvous.py",
        looks=(
            "RuntimeError: use_libuv was requested but PyTorch was build without libuv support",
        ),
        patterns=(
            Pattern(
                "use_libuv was requested",
                r"use_libuv was requested but PyTorch was buil[dt] without",
            ),
        ),
        weight=93,
    ),
    LogCause(
        code="LG-914",
        title="harmless: the store or a peer went away after the job's end",
        says="The job reported its end, then rank 0 and its store ended before the threads that still polled it.",
        prove="look whether the job's result is there",
        fix="Nothing; torch.distributed.destroy_process_group() at the end of the program avoids the lines.",
        source="read: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp HeartbeatMonitor; pytorch/pytorch#121944",
        looks=(),
        patterns=(),
        severity=Severity.HARMLESS,
    ),
    LogCause(
        code="LG-912",
        title="harmless: the node has no IPv6",
        says="c10d tried IPv6 first, which this node does not have (errno 97), and goes on with IPv4.",
        prove="cat /proc/sys/net/ipv6/conf/all/disable_ipv6",
        fix="Nothing to do.",
        source="read: socket.cpp tries IPv6, then IPv4; pytorch/pytorch#74316",
        looks=(
            "[W socket.cpp:401] [c10d] The server socket cannot be initialized on [::]:29501"
            " (errno: 97 - Address family not"
            " supported by protocol).",
        ),
        patterns=(Pattern("(errno: 97 - Address family"),),
        severity=Severity.HARMLESS,
    ),
    LogCause(
        code="LG-905",
        title="harmless: a name has no IPv6 address",
        says=(
            "c10d found no IPv6 address for {host} and goes on with IPv4; it fails only if the"
            " IPv4 line stands there as well."
        ),
        prove="getent ahosts {host}",
        fix="Nothing to do.",
        source="read: socket.cpp tries IPv6, then IPv4",
        looks=(
            "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be"
            " retrieved (gai error: -2 - Name or"
            " service not known).",
        ),
        patterns=(
            Pattern(
                "The IPv6 network addresses of",
                rf"The IPv6 network addresses of {TARGET} cannot be retrieved",
            ),
        ),
        severity=Severity.HARMLESS,
        key=("host",),
    ),
    LogCause(
        code="LG-906",
        title="harmless but slow: reverse lookups of peers fail",
        says=(
            "The reverse lookup of a peer failed (err={error}): the job works, but each lookup"
            " can cost seconds, and addresses in"
            " c10d's messages are nonsense."
        ),
        prove="time getent hosts PEER-ADDRESS on each node",
        fix="./fullmesh apply -i INVENTORY --tags network (peers in /etc/hosts): measured 10.2 s against 0.02 s.",
        source="measured; pytorch/pytorch#159007",
        looks=(
            "[W socket.cpp:764] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
        ),
        patterns=(
            Pattern(
                "hostname of the client socket cannot be retrieved",
                r"hostname of the client socket cannot be retrieved\. err=(?P<error>-?\d+)",
            ),
        ),
        severity=Severity.HARMLESS,
    ),
    LogCause(
        code="LG-907",
        title="harmless but slow: the listen backlog (somaxconn) is small",
        says="somaxconn is {value}: with more ranks than that, the start takes many times longer.",
        prove="sysctl net.core.somaxconn; nstat -az TcpExtListenOverflows",
        fix="./fullmesh apply -i INVENTORY --tags tuning.",
        source="measured: somaxconn 1 and 48 ranks, 9.4 s against 0.86 s",
        looks=("[W socket.cpp:464] [c10d] The listen backlog is capped: somaxconn is 1",),
        patterns=(Pattern("somaxconn", r"somaxconn (?:is|=) (?P<value>\d{1,9})"),),
        derive=derive_low_somaxconn,
        severity=Severity.HARMLESS,
    ),
)
