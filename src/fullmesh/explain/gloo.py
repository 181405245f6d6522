"""What Gloo says, and what it means (measured with torch 2.13; sources: pytorch/gloo@70dc360).

A table, one entry a cause, so longer than other files.
"""

from __future__ import annotations

from fullmesh.explain.derive import derive_gloo_remote
from fullmesh.explain.model import ANY_CAUSE, LogCause, Pattern, Severity

# a loopback address is a cause of its own (LG-106)
REMOTE = r"remote=\[(?!127\.|::1\]|::ffff:127\.)(?P<peer>[0-9A-Fa-f.:%\w]+)\]:(?P<printed>\d{1,5})"
LINKS = "./fullmesh verify -i INVENTORY (rung L2 tries every link in both directions"
DIRECTION = (
    "the listening end {peer}: with Gloo the higher IP always connects to the lower one, so look at the node with the"
    " lower address, not at the node whose log this is"
)
FIREWALL = "./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the data ports and opens them to the peers)"

CAUSES = (
    LogCause(
        code="LG-101",
        title="Gloo: a data connection failed and an old torch hid the reason ('no error')",
        says=(
            "Two ranks could not connect on a Gloo data port; torch up to about 2.6 prints 'no"
            " error' for every connect"
            " failure, be it drop, reject or refusal. Two causes look like this: a rank announced an address that its"
            " peers cannot reach (Gloo took the interface that the host name leads to), or a firewall shuts the port."
        ),
        where=(
            "between two nodes: a node whose host name leads to loopback or to another interface, else the firewall of"
            " the node with the lower IP, which listens"
        ),
        prove=f'on every node: getent ahosts "$(hostname)"; {LINKS}: VC-201 drop, VC-202 reject, VC-203 refused)',
        fix=(
            "GLOO_SOCKET_IFNAME with the cluster interface on every node (role cluster_env), host names that lead to"
            f" the cluster's addresses (role name_resolution); where only the master port is open: {FIREWALL}."
        ),
        source="gloo 5ca057d (2025-02-25, object slicing); sgl-project/sglang#3226, gpustack/gpustack#2125",
        looks=(
            "[rank1]:[E528 08:52:46.164295950 ProcessGroupGloo.cpp:145] Gloo connectFullMesh failed with"
            " [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        ),
        patterns=(
            Pattern("pair.cc:144] no error"),
            Pattern(
                "connectFullMesh failed with", r"connectFullMesh failed with .{0,300}?\] no error"
            ),
        ),
        follows=("LG-102", "LG-103", "LG-104", "LG-106", "LG-109", "LG-508"),
        weight=40,
    ),
    LogCause(
        code="LG-102",
        title="Gloo: a peer's data port is rejected (No route to host, errno 113)",
        says=(
            "Gloo's connection to {peer} {port_note} was rejected at once: a firewall answers"
            " with REJECT (firewalld's default)."
        ),
        where=DIRECTION,
        prove=f"{LINKS}: VC-202); on the other node: ip neigh show {{peer}} (an entry proves that the host is there)",
        fix=FIREWALL,
        source=(
            "measured: nft reject with icmpx admin-prohibited, 0.3 s, the passive side hangs;"
            " sgl-project/sglang#3820"
        ),
        looks=(
            "RuntimeError: Gloo connectFullMesh failed with"
            " [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:172] timed out"
            " connecting: SO_ERROR: No route to host, remote=[10.77.0.11]:10653$1",
        ),
        patterns=(
            Pattern("SO_ERROR: No route to host", rf"SO_ERROR: No route to host,? {REMOTE}"),
        ),
        follows=("LG-508",),
        key=("peer",),
        derive=derive_gloo_remote,
        weight=75,
    ),
    LogCause(
        code="LG-103",
        title="Gloo: a peer's data port is refused (errno 111)",
        says=(
            "Gloo's connection to {peer} {port_note} was refused: a firewall answers with a TCP"
            " reset, or the rank that"
            " listened there has ended."
        ),
        where=DIRECTION,
        prove=(
            f"{LINKS}: VC-203 proves the firewall; without it read the log of the rank on"
            f" {{peer}}, it ended first)"
        ),
        fix=FIREWALL,
        source="measured: nft reject with tcp reset, 0.04 s; facebookresearch/PyTorch-BigGraph#119",
        looks=("timed out connecting: SO_ERROR: Connection refused, remote=[10.77.0.11]:10653$0",),
        patterns=(
            Pattern("SO_ERROR: Connection refused", rf"SO_ERROR: Connection refused,? {REMOTE}"),
        ),
        follows=("LG-305", "LG-306", "LG-307", "LG-319", "LG-501", "LG-508", "LG-509"),
        key=("peer",),
        derive=derive_gloo_remote,
        weight=70,
    ),
    LogCause(
        code="LG-104",
        title="Gloo: packets to a peer's data port are dropped (errno 110)",
        says="Gloo's connection to {peer} {port_note} got no answer at all: something drops the packets.",
        where=DIRECTION,
        prove=(
            f"{LINKS}: VC-201; the drop counter on {{peer}} tells its own firewall from one"
            " outside: a counter that stays 0"
            " means a security group or switch)"
        ),
        fix=f"{FIREWALL}; outside the host: open the data range in the cloud's security group, both directions.",
        source=(
            "measured: nft drop, active side ends after 539 s, passive side still hangs at 1900"
            " s; pytorch/pytorch#44544"
        ),
        looks=(
            "timed out connecting: SO_ERROR: Connection timed out, remote=[10.77.0.11]:10653$0",
        ),
        patterns=(
            Pattern(
                "SO_ERROR: Connection timed out", rf"SO_ERROR: Connection timed out,? {REMOTE}"
            ),
        ),
        follows=("LG-502", "LG-503", "LG-508", "LG-511"),
        key=("peer",),
        derive=derive_gloo_remote,
        weight=74,
    ),
    LogCause(
        code="LG-105",
        title="Gloo: a rank waited for a peer that never connected",
        says=(
            "This rank waited for a peer's data connection until five times its timeout and"
            " nobody came; the text of the error"
            " stands in the log of the other node."
        ),
        where="the node of this log when no other error is found: it listened, and packets to it were lost",
        prove=f"{LINKS}), and give explain-log the logs of all ranks",
        fix=FIREWALL,
        source="measured; gloo/transport/tcp/pair.h waitUntil multiplies the timeout by 5 (1800 s become 2.5 hours)",
        looks=(
            "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.h:311]"
            " Connect timeout [none]",
        ),
        patterns=(Pattern("Connect timeout [", r"Connect timeout \[(?P<peer>[^\]]{0,80})\]"),),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
    ),
    LogCause(
        code="LG-115",
        title="Gloo: both ends waited, so the packets between them are dropped",
        says=(
            "Every rank whose log is given waited for a data connection and none was answered or rejected: packets"
            " to the data ports are dropped without a word (or a rank whose log is not given never came)."
        ),
        where="the node with the lower address: with Gloo the higher IP always connects to the lower one",
        prove=f"{LINKS}: VC-201)",
        fix=f"{FIREWALL}; outside the host: open the data range in the cloud's security group, both directions.",
        source="recorded: nft drop on the data range, timeout 4 s, both ends end after 20 s with the same line",
        looks=(),
        patterns=(),
        weight=60,
    ),
    LogCause(
        code="LG-116",
        title="Gloo: a rank's number is not below the number of ranks",
        says="RANK is {number} and WORLD_SIZE is {size}: ranks count from 0 to WORLD_SIZE-1.",
        where="the node of this log: its RANK, node rank or WORLD_SIZE",
        prove="on that node: cat /etc/fullmesh/env; env | grep -E 'RANK|WORLD_SIZE' where the job starts",
        fix="Start the job with fullmesh-torchrun on every node, or give every process its own RANK.",
        source="recorded: RANK=2 with WORLD_SIZE=2; gloo/context.cc",
        looks=("RuntimeError: [enforce fail at .../gloo/context.cc:23] rank < size. 2 vs 2",),
        patterns=(
            Pattern("rank < size.", r"rank < size\. (?P<number>\d{1,7}) vs (?P<size>\d{1,7})"),
        ),
        weight=89,
    ),
    LogCause(
        code="LG-106",
        title="Gloo: a rank published a loopback address",
        says=(
            "A rank announced the loopback address {peer} to its peers: its host name resolves"
            " to 127.0.1.1 (Debian's default"
            " line in /etc/hosts), or GLOO_SOCKET_IFNAME is lo."
        ),
        where="the node that announced {peer}: a peer of the node of this log (or that node itself)",
        prove='on every node: getent ahosts "$(hostname)"; ./fullmesh verify -i INVENTORY (VC-102)',
        fix=(
            "./fullmesh apply -i INVENTORY --tags network (role name_resolution), or export"
            " GLOO_SOCKET_IFNAME with the cluster interface."
        ),
        source="measured; pytorch/pytorch#15592, #8664; gloo device.cc:89-141",
        looks=("timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:26526$1",),
        patterns=(
            Pattern("remote=[127.", r"SO_ERROR: [^,]{1,80},? remote=\[(?P<peer>127\.[\d.]+)\]"),
            Pattern("remote=[::1]", r"SO_ERROR: [^,]{1,80},? remote=\[(?P<peer>::1)\]"),
            # torch up to 1.x
            Pattern("] connect [127.", r"pair\.cc:\d{1,5}\] connect \[(?P<peer>127\.[\d.]+)\]"),
        ),
        follows=("LG-109",),
        key=("peer",),
        weight=90,
    ),
    LogCause(
        code="LG-107",
        title="Gloo: one rank uses IPv4, another IPv6",
        says=(
            "One rank announced an address of family {first}, another one of family {second} (2"
            " is IPv4, 10 is IPv6), so they"
            " can never connect."
        ),
        where="the node whose interface or host name gives the other family first",
        prove='on every node: getent ahosts "$(hostname)"; ip -brief addr; ./fullmesh verify -i INVENTORY (VC-101)',
        fix=(
            "One family for all: ./fullmesh apply -i INVENTORY --tags network, and the same"
            " GLOO_SOCKET_IFNAME kind of address everywhere."
        ),
        source="measured; gloo device.cc:285",
        looks=(
            "RuntimeError: [enforce fail at"
            " /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:285] ss1.ss_family =="
            " ss2.ss_family. 2 vs 10",
        ),
        patterns=(
            Pattern("ss2.ss_family", r"ss2\.ss_family\.? (?P<first>\d+) vs (?P<second>\d+)"),
        ),
        weight=90,
    ),
    LogCause(
        code="LG-108",
        title="Gloo: the interface in GLOO_SOCKET_IFNAME is not there",
        says="GLOO_SOCKET_IFNAME names {interface}, which this node does not have (or which has no address).",
        where="the node of this log",
        prove="on that node: ip -brief addr; env | grep SOCKET_IFNAME",
        fix=(
            "./fullmesh apply -i INVENTORY --tags launch (role cluster_env writes each node's"
            " own interface into the environment)."
        ),
        source="measured; gloo device.cc:84; GLOO_SOCKET_IFNAME is an exact name, NCCL's is a prefix",
        looks=(
            (
                "RuntimeError: [enforce fail at .../gloo/transport/tcp/device.cc:84] ifa != nullptr."
                " Unable to find address for: eth9"
            ),
        ),
        patterns=(
            Pattern(
                "Unable to find address for:",
                r"Unable to find address for: (?P<interface>[^\s\]]{1,32})",
            ),
        ),
        key=("interface",),
        weight=92,
    ),
    LogCause(
        code="LG-109",
        title="Gloo: the node's own host name leads nowhere, so Gloo takes loopback",
        says=(
            "This node's own host name does not resolve to one of its addresses; Gloo fell back"
            " to loopback, which no other node can reach."
        ),
        where="the node of this log",
        prove='on that node: getent ahosts "$(hostname)"; ./fullmesh verify -i INVENTORY (VC-102)',
        fix="./fullmesh apply -i INVENTORY --tags network (role name_resolution), or export GLOO_SOCKET_IFNAME.",
        source="measured; vllm-project/vllm#7074, aws-samples/aws-do-eks#69",
        looks=(
            "[W ProcessGroupGloo.cpp:717] Warning: Unable to resolve hostname to a (local)"
            " address. Using the loopback address as"
            " fallback. Manually set the network interface to bind to with GLOO_SOCKET_IFNAME. (function operator())",
        ),
        patterns=(Pattern("Unable to resolve hostname to a (local) address"),),
        weight=91,
    ),
    LogCause(
        code="LG-110",
        title="ports have run out: the data range is too small, full of TIME_WAIT, or reserved",
        says=(
            "The kernel had no port left to give ({reason}): the data range is too small for"
            " ranks times process groups, full"
            " of TIME_WAIT from fast restarts, or covered by ip_local_reserved_ports."
        ),
        where="the node of this log",
        prove=(
            "on that node: sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports;"
            " ss -Htan state time-wait | wc -l"
        ),
        fix=(
            "Set fullmesh_process_groups and fullmesh_data_ports to what the job needs (16 ports"
            " per rank and group survive"
            " restarts), then ./fullmesh apply -i INVENTORY."
        ),
        source="measured: 2*L*G+6 ports for one start, 16*L*G for back-to-back restarts; TIME_WAIT lasts 60 s",
        looks=(
            "[enforce fail at .../gloo/transport/tcp/socket.cc:95] rv != -1. bind: Address already in use",
            "[enforce fail at .../gloo/transport/tcp/socket.cc:142] connect: Cannot assign requested address",
            (
                "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node2]:29500"
                " (errno: 99 - Cannot assign requested address)."
            ),
        ),
        patterns=(
            Pattern(
                "bind: Address already in use",
                r"(?:device|socket|listener)\.cc:\d+\].{0,200}(?P<reason>bind: Address already in use)",
            ),
            Pattern(
                "connect: Cannot assign requested address",
                r"(?P<reason>connect: Cannot assign requested address)",
            ),
            Pattern("errno: 99", r"(?P<reason>errno: 99 - Cannot assign requested address)"),
            Pattern(
                "failed : Cannot assign", r"(?P<reason>failed : Cannot assign requested address)"
            ),
        ),
        weight=88,
    ),
    LogCause(
        code="LG-111",
        title="Gloo: two ranks announced the same address and port",
        says=(
            "Two ranks announced exactly the same address and port: two nodes with one IP, or"
            " one rank started twice."
        ),
        where="the two nodes that carry the address",
        prove=(
            "./fullmesh verify -i INVENTORY (VC-207: something else answers at a peer's"
            " address); arping -D -I INTERFACE ADDRESS"
        ),
        fix="Give every node its own address and every process its own RANK.",
        source="read: gloo device.cc:280-316",
        looks=("[enforce fail at .../gloo/transport/tcp/device.cc:312] Cannot connect to self",),
        patterns=(Pattern("Cannot connect to self"),),
        weight=85,
    ),
    LogCause(
        code="LG-112",
        title="Gloo: a peer closed the connection",
        says="The peer {peer} ended in the middle of the job; why, stands in the log of that rank.",
        where="the rank at {peer}",
        prove="give explain-log the logs of all ranks; on that node: dmesg -T | tail; journalctl -k --since -1h",
        fix="Fix what ended the other rank; this message is its echo.",
        source="measured; gloo pair.cc:551-560",
        looks=(
            (
                "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection"
                " closed by peer [10.77.0.12]:3519"
            ),
        ),
        patterns=(
            Pattern(
                "Connection closed by peer [",
                r"Connection closed by peer \[(?P<peer>[^\]\s]{1,64})\]",
            ),
            Pattern("Read error [", r"pair\.cc:\d+\] Read error \[(?P<peer>[^\]\s]{1,64})\]"),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
        key=("peer",),
    ),
    LogCause(
        code="LG-113",
        title="Gloo: data stopped in the middle of a collective",
        says=(
            "All ranks connected, then {operation} got no data for {milliseconds} ms: large"
            " packets are lost on the way (MTU"
            " 9000 against a path of 1500), or a peer is stuck."
        ),
        where="the path between the ranks that name each other, or the rank that logs no such timeout",
        prove="./fullmesh verify -i INVENTORY (VC-208: MTU black hole); ping -M do -s 8972 PEER",
        fix=(
            "Give all nodes and switches one MTU (fullmesh_links: mtu); stuck peer: py-spy dump"
            " --pid PID on that rank."
        ),
        source="measured: 4 KB pass, 4 MB fail with hosts at 9000 and a path of 1500; NVIDIA/nccl#1524",
        looks=(
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78]"
            " Timed out waiting 6000ms for recv"
            " operation to complete",
        ),
        patterns=(
            Pattern(
                "Timed out waiting",
                r"Timed out waiting (?P<milliseconds>\d+) ?ms for (?P<operation>\w+) operation to complete",
            ),
        ),
        severity=Severity.SYMPTOM,
        follows=(ANY_CAUSE,),
    ),
    LogCause(
        code="LG-117",
        title="Gloo: two ranks take part in a collective with different sizes",
        says=(
            "A rank received more or fewer bytes than it expected ({detail}): the ranks called different collectives,"
            " or the same one with tensors of different sizes."
        ),
        where="the ranks that went another way through the program, or have another batch or model",
        prove="TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective and names the rank",
        fix="Call the same collectives in the same order, with the same shapes and types, on every rank.",
        source="read: gloo 306281a (July 2025)",
        looks=(
            "RuntimeError: Received data size doesn't match expected size. Is there a distributed collective"
            " mismatch in"
            " your code?",
        ),
        patterns=(
            Pattern(
                "Received data size doesn't match",
                r"(?P<detail>Received data size doesn't match expected size)",
            ),
            Pattern(
                "op.preamble.length <= op.nbytes",
                r"(?P<detail>op\.preamble\.length <= op\.nbytes[^\n]{0,40})",
            ),
        ),
        weight=84,
    ),
    LogCause(
        code="LG-114",
        title="Gloo: a data connection failed for another reason",
        says="Gloo's connection to {peer} {port_note} failed: {reason}.",
        where=DIRECTION,
        prove=f"{LINKS}); ip route get {{peer}}",
        fix="The routes and addresses of the two nodes: ./fullmesh apply -i INVENTORY --tags network.",
        source="read: gloo helpers.h:138-228",
        looks=(
            "timed out connecting: SO_ERROR: Network is unreachable, remote=[10.77.0.11]:10653$0",
        ),
        patterns=(
            Pattern(
                "SO_ERROR: ",
                (
                    rf"SO_ERROR: (?P<reason>(?!No route to host|Connection refused|Connection timed"
                    rf" out)[^,\]]{{1,80}}),? {REMOTE}"
                ),
            ),
        ),
        key=("peer", "reason"),
        derive=derive_gloo_remote,
        weight=65,
    ),
)
