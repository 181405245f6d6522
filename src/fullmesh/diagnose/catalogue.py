"""The causes that diagnosis names, one row each, as data: what tests inject and what they expect.

The numbers are those of the list of causes that the project was built on; a number is never reused. A row with several
cases has one code for each. Everything here is about *findings*; the sentences of the codes are in ``codes.py``.
A table, so longer than other files.

How to read ``node`` of a case: ``victim`` is where the harness breaks something; ``peer`` is another node;
``first`` the first node of the plan. ``fields`` are the fields of the primary finding that are never empty.

Where firewalld runs (nodes that Fullmesh configured), a drop in a table of one's own is always row 13 (DG-113),
whatever it drops: rows 1 to 5 are then made in firewalld's own zone (target DROP, a port taken out of runtime and
permanent), or on nodes without it. Rules need ``ct state new`` or they stop answers, too: still one finding, with both
directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LINK = ("node", "peer", "port", "direction", "seen")
NODE = ("node", "seen", "expected")
ENV = ("node", "seen", "expected")
LAB, RECORDED = "lab", "recorded"


@dataclass(frozen=True)
class Case:
    """One way in which a cause shows.

    Attributes:
        name: short, unique; the harness names its cases so.
        code: of the primary finding.
        how: how to make it on lab nodes, in words; of a recorded case, what the observation shows.
        by: ``lab`` when containers, namespaces, nft, tc or files can make it, else ``recorded``.
        node: the ``node`` field of the primary finding.
        fields: which fields of the finding are filled in.
        bare: it can be injected on nodes that Fullmesh never configured, too.
        severity: of the primary finding; a warning alone leaves the exit code at 0.
        options: what ``./fullmesh diagnose`` needs to see it.
    """

    name: str
    code: str
    how: str
    by: str = LAB
    node: str = "victim"
    fields: tuple[str, ...] = NODE
    bare: bool = True
    severity: str = "error"
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A cause."""

    number: int
    cause: str
    cases: tuple[Case, ...]


def recorded(name: str, code: str, how: str, **more: Any) -> Case:
    """A case that no container can make."""
    return Case(name, code, how, by=RECORDED, **more)


def gpu(name: str, code: str, how: str, severity: str = "warning") -> Case:
    """A fault of a node's GPUs."""
    return Case(f"gpu-{name}", code, how, by=RECORDED, severity=severity)


def link(name: str, code: str, how: str, **more: Any) -> Case:
    """A case whose finding is about a link."""
    return Case(name, code, how, fields=LINK, **more)


def boot(name: str, code: str, how: str) -> Case:
    """A case that shows at the next boot only."""
    return Case(name, code, how, severity="warning")


# Made by the lab's stand-in below the real nvidia-smi, and by files in the place of the bus and the kernel's log.
GPUS = Row(
    54,
    "a GPU, its driver or its place in the machine",
    (
        gpu(
            "driver",
            "VC-131",
            "nvmlInit says that driver and libraries are of different versions",
            severity="error",
        ),
        gpu("hidden", "VC-132", "eight on the bus, the driver shows seven", severity="error"),
        gpu("xid", "VC-113", "NVRM: Xid 79 in the kernel's log", severity="error"),
        gpu("program", "VC-113", "NVRM: Xid 31 in the kernel's log: a program's own fault"),
        gpu("ecc", "VC-112", "two errors that ECC could not fix", severity="error"),
        gpu("remap", "VC-133", "a row of memory that could not be remapped", severity="error"),
        gpu("pending", "VC-134", "a row of memory that waits for a reset"),
        gpu("lanes", "VC-114", "four PCIe lanes of sixteen"),
        gpu("persistence", "VC-115", "persistence mode is off"),
        gpu("nvlink", "VC-135", "two of 18 NVLinks are down"),
        gpu("bridge", "VC-145", "six NVLinks of a card are missing"),
        gpu(
            "fabric",
            "VC-136",
            "the fabric is not set up, its manager is installed and does not run",
            severity="error",
        ),
        gpu("manager", "VC-147", "a fabric manager of another version than the driver"),
        gpu("hot", "VC-137", "clocks held down by heat"),
        gpu("prohibited", "VC-138", "compute mode Prohibited", severity="error"),
        gpu("mig", "VC-139", "MIG is on"),
        gpu("held", "VC-140", "30 GB of a card are in use, no job runs"),
        gpu("acs", "VC-141", "ACS redirects on the ports below each PCIe switch"),
        gpu("iommu", "VC-142", "IOMMU groups of type DMA-FQ"),
        gpu("direct", "VC-143", "the driver's closed modules, no nvidia_peermem"),
        gpu("socket", "VC-146", "RDMA cards on the other processor"),
    ),
)


ROWS: tuple[Row, ...] = (
    Row(
        1,
        "the data range is shut at a node, silently",
        (
            link("range-drop", "VC-201", "the only input chain of the node drops the data range"),
            link(
                "range-half",
                "DG-101",
                "the only input chain drops a part of the data range, such as its upper half",
            ),
            link("output-drop", "VC-201", "an output chain of the node drops the data range"),
            link(
                "decoy",
                "VC-201",
                "two rules that match bytes of packets: the first meets none, the second drops all",
            ),
        ),
    ),
    Row(
        2,
        "the data range is rejected by ICMP at a node",
        (
            link(
                "range-reject",
                "VC-202",
                "the only input chain: reject with icmpx admin-prohibited; or take the range out of firewalld's policy",
            ),
        ),
    ),
    Row(
        3,
        "the data range is refused by a reset at a node",
        (link("range-reset", "VC-203", "the only input chain: reject with tcp reset"),),
    ),
    Row(
        4,
        "one direction is blocked",
        (link("one-way", "VC-201", "as 1 for one peer's address; the other direction is open"),),
    ),
    Row(
        5,
        "the store or rendezvous port is shut, the data range is open",
        (
            link(
                "store-drop", "DG-105", "drop 29500 and 29400 on the master's node, or one of them"
            ),
        ),
    ),
    Row(
        6,
        "torchrun's own random master port is blocked",
        (
            link(
                "random-master",
                "VC-201",
                "as 1: that port comes out of the data range, so the probe's kernel-chosen ports meet the same rule",
            ),
        ),
    ),
    Row(
        7,
        "the port range is pinned on some nodes only",
        (
            Case(
                "range-drift",
                "VC-107",
                "sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
                bare=False,
            ),
            Case(
                "range-drift-bare",
                "DG-107",
                "pin another range on one of two nodes that have no plan",
            ),
        ),
    ),
    Row(
        8,
        "a container's network namespace has the default range",
        (
            Case(
                "netns-range",
                "DG-108",
                "unshare -n on the node; in it a dummy interface that is up and a process called "
                "torchrun, python or pt_*",
                bare=False,
            ),
        ),
    ),
    Row(
        9,
        "the range is too small",
        (Case("range-small", "DG-109", "sysctl -w net.ipv4.ip_local_port_range='50000 50009'"),),
    ),
    Row(
        10,
        "the range is full",
        (
            Case(
                "range-full",
                "DG-110",
                "a small range (64 ports) filled with sockets in TIME_WAIT or connections inside it",
            ),
        ),
    ),
    Row(
        11,
        "reserved ports cover the range",
        (
            Case(
                "range-reserved",
                "VC-108",
                "sysctl -w net.ipv4.ip_local_reserved_ports=50000-54095",
                bare=False,
            ),
        ),
    ),
    Row(
        12,
        "a fixed port lies inside the range",
        (
            Case(
                "port-in-range",
                "DG-112",
                "MASTER_PORT=50004 in the job's environment on every node",
            ),
        ),
    ),
    Row(
        13,
        "nftables rules beside the node's firewall",
        (
            link(
                "second-table",
                "DG-113",
                "a table of one's own whose input chain drops the data range, while another table's chain accepts it",
            ),
        ),
    ),
    Row(
        14,
        "firewalld: wrong zone, or runtime and permanent differ",
        (
            link(
                "wrong-zone",
                "DG-114",
                "the policy that opens the ports to the peers is asked for a zone that they do not come through",
                bare=False,
            ),
            Case(
                "runtime-differs",
                "DG-214",
                "firewall-cmd --permanent ... without --reload, or the other way round, in a zone or policy in force",
                bare=False,
                severity="warning",
            ),
        ),
    ),
    Row(
        15,
        "something between the nodes drops (security group, switch ACL)",
        (
            link(
                "between",
                "DG-115",
                "drop on the bridge outside the node, or a netdev ingress hook on the host's end of its cable",
                node="victim",
            ),
        ),
    ),
    Row(
        16,
        "EFA: the security group does not allow itself",
        (
            recorded(
                "efa", "DG-116", "as 15 between nodes that both have an EFA device", fields=LINK
            ),
        ),
    ),
    Row(
        17,
        "RDMA works, its TCP side channel is blocked",
        (
            recorded(
                "rdma-tcp",
                "DG-117",
                "a blocked link between nodes whose RDMA ports are active",
                fields=LINK,
            ),
        ),
    ),
    Row(
        18,
        "RoCE: GID types or link layers differ",
        (
            recorded("roce-gid", "DG-118", "one node has a RoCE v2 GID, the other has none"),
            recorded(
                "gid-pin",
                "VC-148",
                "NCCL_IB_GID_INDEX=3, and the port has no entry 3",
                severity="warning",
            ),
        ),
    ),
    Row(
        19,
        "GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME is absent everywhere",
        (
            Case(
                "ifname-everywhere",
                "DG-119",
                "GLOO_SOCKET_IFNAME=eth9 on every node",
                node="first",
                fields=ENV,
            ),
        ),
    ),
    Row(
        20,
        "... is absent on one node",
        (Case("ifname-one", "DG-120", "the same on one node", fields=ENV),),
    ),
    Row(
        21,
        "... is lo",
        (Case("ifname-lo", "DG-121", "GLOO_SOCKET_IFNAME=lo on one node or all", fields=ENV),),
    ),
    Row(
        22,
        "a node's own name leads to loopback",
        (Case("own-loopback", "VC-102", "127.0.1.1 HOSTNAME in /etc/hosts, nothing else for it"),),
    ),
    Row(
        23,
        "a node's own name leads nowhere or to a foreign address",
        (
            Case("own-unknown", "VC-102", "no line for HOSTNAME in /etc/hosts and no name server"),
            Case("own-foreign", "DG-123", "203.0.113.9 HOSTNAME in /etc/hosts"),
        ),
    ),
    Row(
        24,
        "the master's name leads to loopback on a worker",
        (Case("master-loopback", "DG-124", "127.0.0.1 MASTERNAME first in a worker's /etc/hosts"),),
    ),
    Row(
        25,
        "MASTER_ADDR=localhost",
        (Case("master-localhost", "DG-125", "MASTER_ADDR=localhost", fields=ENV),),
    ),
    Row(
        26,
        "MASTER_ADDR is nobody's address",
        (
            Case(
                "master-nobody",
                "DG-126",
                "MASTER_ADDR=an unused address of the cluster network",
                fields=ENV,
            ),
        ),
    ),
    Row(
        27,
        "MASTER_ADDR is unknown",
        (Case("master-unknown", "DG-127", "MASTER_ADDR=no-such-node", fields=ENV),),
    ),
    Row(
        28,
        "MASTER_PORT differs",
        (Case("master-port", "DG-128", "MASTER_PORT=29999 on one node", fields=ENV),),
    ),
    Row(
        29,
        "the master port is in use",
        (
            Case(
                "port-taken",
                "VC-109",
                "a listener on 0.0.0.0:29500 of the master's node",
                fields=(*NODE, "port"),
            ),
        ),
    ),
    Row(
        30,
        "an earlier job still holds the master port",
        (
            Case(
                "stale-job",
                "DG-130",
                "the listener's command line has torchrun, torch.distributed, deepspeed, accelerate "
                "or pt_elastic in it",
                fields=(*NODE, "port"),
            ),
        ),
    ),
    Row(
        31,
        "WORLD_SIZE differs",
        (Case("world-size", "DG-131", "WORLD_SIZE=3 on one node", fields=ENV),),
    ),
    Row(
        32,
        "a rank twice, a rank missing",
        (Case("node-rank", "DG-132", "NODE_RANK=0 on a second node", fields=ENV),),
    ),
    Row(
        33,
        "a rank was killed or crashed",
        (
            recorded(
                "rank-killed",
                "DG-133",
                "the kernel log: out of memory, or segfault, of a python process",
            ),
        ),
    ),
    Row(
        34,
        "NCCL picks an interface that peers cannot reach",
        (
            Case(
                "nccl-interface",
                "DG-134",
                "NCCL_SOCKET_IFNAME=docker0 with a dummy docker0 that is up",
                fields=ENV,
            ),
            recorded("nccl-library", "VC-601", "the library itself announces another address"),
        ),
    ),
    Row(
        35,
        "an interface is down",
        (Case("interface-down", "VC-106", "ip link set eth1 down on one node"),),
    ),
    Row(
        36,
        "IPv4 on one node, IPv6 on another",
        (
            Case(
                "families",
                "DG-136",
                "GLOO_SOCKET_IFNAME unset; the node's name has only an IPv6 address of its own in /etc/hosts",
            ),
        ),
    ),
    Row(
        37,
        "large packets are lost",
        (
            link(
                "mtu",
                "VC-208",
                "mtu 9000 at both ends over a 1500 path with offloads off; or drop packets longer than 1400 on the way",
            ),
        ),
    ),
    Row(
        38,
        "packets are lost",
        (link("loss", "DG-138", "nft numgen random mod 100 < 20 drop, both directions"),),
    ),
    Row(
        39,
        "a link is slow",
        (
            link(
                "slow", "DG-139", "tc tbf rate 10mbit on the node's eth1", options=("--bandwidth",)
            ),
            recorded(
                "slow-speed",
                "DG-239",
                "a card negotiated less than the others' cards",
                severity="warning",
            ),
        ),
    ),
    Row(
        40,
        "two machines have one address",
        (
            Case(
                "duplicate",
                "DG-140",
                "another namespace on the bridge with the victim's address",
                fields=(*NODE, "peer"),
            ),
        ),
    ),
    Row(
        41,
        "asymmetric route and strict rp_filter",
        (
            link(
                "rp-filter", "DG-141", "rp_filter=1 and a route to the peer over another interface"
            ),
        ),
    ),
    Row(
        42,
        "the neighbour table is full",
        (recorded("neighbours", "DG-142", "entries against gc_thresh3, table_fulls"),),
    ),
    Row(
        43,
        "conntrack is full",
        (recorded("conntrack", "DG-143", "nf_conntrack_count against nf_conntrack_max"),),
    ),
    Row(
        44,
        "the listen backlog is too short",
        (
            Case(
                "backlog",
                "DG-144",
                "sysctl -w net.core.somaxconn=1 on the master; an error once connections are lost",
                severity="warning",
            ),
        ),
    ),
    Row(
        45,
        "reverse lookups hang",
        (
            Case(
                "dns-black-hole",
                "DG-145",
                "nameserver SILENT in resolv.conf, no peers in /etc/hosts",
            ),
        ),
    ),
    Row(46, "clocks differ", (recorded("clock", "VC-103", "a handshake's time is 20 s off"),)),
    Row(
        47,
        "too few files",
        (
            Case(
                "nofile",
                "VC-105",
                "* and root: nofile 24 in /etc/security/limits.d, or of sshd's unit",
            ),
        ),
    ),
    Row(
        48,
        "locked memory or /dev/shm too small",
        (
            recorded("memlock", "DG-148", "64 KiB of locked memory on a node with RDMA"),
            Case("shm", "DG-248", "mount a tmpfs of 16 MiB over /dev/shm"),
        ),
    ),
    Row(
        49,
        "versions, GPUs, RDMA or plugins differ",
        (
            Case(
                "torch-version",
                "VC-104",
                "another version in the metadata of the venv's torch",
                bare=False,
            ),
            recorded("gpus", "DG-149", "one node shows fewer GPUs, or another driver"),
            recorded("rdma-port", "DG-249", "an RDMA port is down on one node"),
        ),
    ),
    Row(
        50,
        "proxy variables without exceptions for the peers",
        (
            Case(
                "proxy",
                "DG-150",
                "https_proxy in /etc/environment, no_proxy without the peers",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    Row(
        51,
        "SELinux denies",
        (recorded("selinux", "DG-151", "avc: denied in the audit log, of a job's command"),),
    ),
    # Not of the 50, but between a user and an answer all the same.
    Row(
        52,
        "a node does not answer",
        (
            Case(
                "unreachable", "DG-201", "stop the node's sshd or the node", fields=("node", "seen")
            ),
            recorded(
                "no-python", "DG-202", "the module cannot run: no Python", fields=("node", "seen")
            ),
            recorded(
                "no-sender", "DG-203", "the probe could not be started", fields=("node", "seen")
            ),
            Case("no-address", "VC-121", "ip addr del the cluster address"),
            Case(
                "no-listener",
                "VC-213",
                "a range whose every port is held, so that no listener can be opened",
                by=RECORDED,
                fields=("node", "seen"),
            ),
        ),
    ),
    Row(
        53,
        "no route to a peer",
        (
            link("no-route", "DG-155", "ip route replace unreachable PEER on the node"),
            link(
                "wrong-source",
                "VC-206",
                "ip route replace PEER dev eth1 src another address of the node",
            ),
        ),
    ),
    Row(
        55,
        "a route or a rule of a node refuses to send to a peer",
        (
            link(
                "refused",
                "DG-155",
                "ip route add blackhole or prohibit PEER; ip rule add to PEER prohibit",
            ),
            link(
                "refused-account",
                "DG-255",
                "ip rule add uidrange 1000-1999 to PEER prohibit",
                severity="warning",
            ),
        ),
    ),
    Row(
        56,
        "a node sends to a peer over another card",
        (
            link(
                "astray",
                "DG-156",
                "ip rule from the node's own address to a table whose route leaves over another card",
            ),
        ),
    ),
    Row(
        57,
        "a neighbour entry made by hand is not the peer's",
        (link("neighbour-by-hand", "DG-157", "ip neigh replace PEER lladdr of nobody, permanent"),),
    ),
    Row(
        58,
        "something beside the packet filter throws packets away, and the kernel counts them",
        (
            link("ipsec", "DG-158", "ip xfrm policy add … dir out action block"),
            link("queue", "DG-158", "tc qdisc add dev eth1 root pfifo limit 0 or bfifo limit 100"),
        ),
    ),
    Row(
        59,
        "nodes share what each must have of its own",
        (
            Case(
                "one-name",
                "DG-159",
                "hostname twins on both; an error where they share the boot id as well (containers)",
                severity="warning",
            ),
            Case(
                "one-image",
                "DG-162",
                "the machine-id and the host key of the one node's files on the other, too",
                severity="warning",
            ),
            recorded("one-mac", "DG-259", "the cluster cards show one hardware address"),
        ),
    ),
    Row(
        60,
        "the rank or the size of an earlier job stays behind",
        (
            Case(
                "rank-left",
                "DG-160",
                "RANK=0 in /etc/environment",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    Row(
        61,
        "NCCL is told to leave the cluster's card out",
        (
            Case(
                "ifname-left-out",
                "DG-161",
                "NCCL_SOCKET_IFNAME=^eth1 in /etc/environment",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    GPUS,
    Row(
        63,
        "a kernel setting comes back with another value at the next boot",
        (
            boot(
                "boot-sysctl",
                "DG-163",
                "tcp_mtu_probing=2 in a file of /etc/sysctl.d, not read yet",
            ),
        ),
    ),
    Row(
        64,
        "a service that the node needs is not started at the next boot",
        (boot("boot-unit", "DG-164", "systemctl disable of the clock's daemon"),),
    ),
    Row(
        65,
        "a firewall comes back at the next boot",
        (boot("boot-firewall", "DG-165", "nftables.service enabled, its file drops, not started"),),
    ),
    Row(
        66,
        "addresses or routes are gone after the next boot",
        (
            boot(
                "boot-address",
                "DG-166",
                "the address taken out of the owner's file, not off the card",
            ),
            boot("boot-route", "DG-266", "ip route add of a network with the peer in it"),
        ),
    ),
    Row(
        67,
        "mounts are others after the next boot",
        (
            recorded("boot-mount", "DG-167", "an NFS mount that no file has", severity="warning"),
            boot(
                "boot-fstab",
                "DG-267",
                "a line of fstab without nofail for a disk that is not there",
            ),
        ),
    ),
    Row(
        68,
        "SELinux is in another mode after the next boot",
        (
            recorded(
                "boot-selinux", "DG-168", "setenforce 0 under SELINUX=enforcing", severity="warning"
            ),
        ),
    ),
    Row(
        69,
        "another kernel, or other arguments, at the next boot",
        (
            recorded("boot-arguments", "DG-169", "the entry lacks iommu=pt", severity="warning"),
            recorded(
                "boot-driver", "DG-269", "no nvidia.ko for the next kernel", severity="warning"
            ),
        ),
    ),
    Row(
        70,
        "limits of services are others after the next boot",
        (
            recorded(
                "boot-limits", "DG-170", "DefaultLimitMEMLOCK in a new file", severity="warning"
            ),
        ),
    ),
    Row(
        71,
        "NCCL is told to read a file that is not there",
        (
            Case(
                "nccl-conf-gone",
                "DG-171",
                "NCCL_CONF_FILE=/etc/nccl/gone.conf in /etc/environment",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    Row(
        72,
        "something that no rule knows, and that the nodes do not have alike",
        (
            recorded(
                "unlike",
                "DG-172",
                "a link shut in between, arp_ignore set on one node",
                severity="note",
            ),
        ),
    ),
    Row(
        75,
        "a service of the plan (fullmesh_services) cannot be reached",
        (
            link("service-drop", "DG-175", "as 1 for one port of a service"),
            link("service-loopback", "DG-275", "a service that listens on 127.0.0.1"),
        ),
    ),
    Row(
        80,
        "the kernel itself says why it throws the packets of a link away",
        (recorded("reason", "DG-180", "its packet filter, with a rule that no paper evaluates"),),
    ),
    Row(
        81,
        "a program beside the packet filter stops packets",
        (link("xdp", "DG-181", "an XDP program at the card that drops the data range"),),
    ),
    Row(
        82,
        "only the account that runs jobs is stopped",
        (link("job-account", "DG-182", "nft output: meta skuid of the jobs' account, drop"),),
    ),
    Row(
        83,
        "only the unit that jobs run in is held back",
        (Case("job-unit", "DG-183", "IPAddressDeny=any in a drop-in of fullmesh-job@"),),
    ),
    Row(
        85,
        "logins of the account that runs jobs are held to too little",
        (Case("login-limits", "DG-185", "jobber - nproc 20 in /etc/security/limits.d"),),
    ),
    Row(
        87,
        "a rule of a node stops ARP",
        (
            Case(
                "arp-drop",
                "DG-187",
                "a chain of family netdev at the card drops ether type arp",
                fields=("node", "peer", "direction", "seen"),
            ),
        ),
    ),
    Row(
        86,
        "ranks run in the network of a container that peers do not reach",
        (
            Case(
                "container-nat",
                "DG-186",
                "a rank in a network namespace behind masquerade",
                fields=ENV,
            ),
        ),
    ),
    Row(
        84,
        "only root is stopped, the account that runs jobs is not",
        (link("root-account", "DG-184", "nft output: meta skuid 0, drop", severity="warning"),),
    ),
)


def cases() -> dict[str, Case]:
    """Every case by its name."""
    return {case.name: case for row in ROWS for case in row.cases}
