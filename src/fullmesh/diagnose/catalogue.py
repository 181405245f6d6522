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
class CauseCase:
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
class CatalogueRow:
    """A cause."""

    number: int
    cause: str
    cases: tuple[CauseCase, ...]


def make_recorded_case(name: str, code: str, how: str, **more: Any) -> CauseCase:
    """A case that no container can make."""
    return CauseCase(name, code, how, by=RECORDED, **more)


def make_gpu_case(name: str, code: str, how: str, severity: str = "warning") -> CauseCase:
    """A fault of a node's GPUs."""
    return CauseCase(f"gpu-{name}", code, how, by=RECORDED, severity=severity)


def make_link_case(name: str, code: str, how: str, **more: Any) -> CauseCase:
    """A case whose finding is about a link."""
    return CauseCase(name, code, how, fields=LINK, **more)


def make_boot_case(name: str, code: str, how: str) -> CauseCase:
    """A case that shows at the next boot only."""
    return CauseCase(name, code, how, severity="warning")


# Made by the lab's stand-in below the real nvidia-smi, and by files in the place of the bus and the kernel's log.
GPUS = CatalogueRow(
    54,
    "a GPU, its driver or its place in the machine",
    (
        make_gpu_case(
            "driver",
            "VC-131",
            "nvmlInit says that driver and libraries are of different versions",
            severity="error",
        ),
        make_gpu_case(
            "hidden", "VC-132", "eight on the bus, the driver shows seven", severity="error"
        ),
        make_gpu_case("xid", "VC-113", "NVRM: Xid 79 in the kernel's log", severity="error"),
        make_gpu_case(
            "program", "VC-113", "NVRM: Xid 31 in the kernel's log: a program's own fault"
        ),
        make_gpu_case("ecc", "VC-112", "two errors that ECC could not fix", severity="error"),
        make_gpu_case(
            "remap", "VC-133", "a row of memory that could not be remapped", severity="error"
        ),
        make_gpu_case("pending", "VC-134", "a row of memory that waits for a reset"),
        make_gpu_case("lanes", "VC-114", "four PCIe lanes of sixteen"),
        make_gpu_case("persistence", "VC-115", "persistence mode is off"),
        make_gpu_case("nvlink", "VC-135", "two of 18 NVLinks are down"),
        make_gpu_case("bridge", "VC-145", "six NVLinks of a card are missing"),
        make_gpu_case(
            "fabric",
            "VC-136",
            "the fabric is not set up, its manager is installed and does not run",
            severity="error",
        ),
        make_gpu_case("manager", "VC-147", "a fabric manager of another version than the driver"),
        make_gpu_case("hot", "VC-137", "clocks held down by heat"),
        make_gpu_case("prohibited", "VC-138", "compute mode Prohibited", severity="error"),
        make_gpu_case("mig", "VC-139", "MIG is on"),
        make_gpu_case("held", "VC-140", "30 GB of a card are in use, no job runs"),
        make_gpu_case("acs", "VC-141", "ACS redirects on the ports below each PCIe switch"),
        make_gpu_case("iommu", "VC-142", "IOMMU groups of type DMA-FQ"),
        make_gpu_case("direct", "VC-143", "the driver's closed modules, no nvidia_peermem"),
        make_gpu_case("socket", "VC-146", "RDMA cards on the other processor"),
    ),
)


ROWS: tuple[CatalogueRow, ...] = (
    CatalogueRow(
        1,
        "the data range is shut at a node, silently",
        (
            make_link_case(
                "range-drop", "VC-201", "the only input chain of the node drops the data range"
            ),
            make_link_case(
                "range-half",
                "DG-101",
                "the only input chain drops a part of the data range, such as its upper half",
            ),
            make_link_case(
                "output-drop", "VC-201", "an output chain of the node drops the data range"
            ),
            make_link_case(
                "decoy",
                "VC-201",
                "two rules that match bytes of packets: the first meets none, the second drops all",
            ),
        ),
    ),
    CatalogueRow(
        2,
        "the data range is rejected by ICMP at a node",
        (
            make_link_case(
                "range-reject",
                "VC-202",
                "the only input chain: reject with icmpx admin-prohibited; or take the range out of firewalld's policy",
            ),
        ),
    ),
    CatalogueRow(
        3,
        "the data range is refused by a reset at a node",
        (make_link_case("range-reset", "VC-203", "the only input chain: reject with tcp reset"),),
    ),
    CatalogueRow(
        4,
        "one direction is blocked",
        (
            make_link_case(
                "one-way", "VC-201", "as 1 for one peer's address; the other direction is open"
            ),
        ),
    ),
    CatalogueRow(
        5,
        "the store or rendezvous port is shut, the data range is open",
        (
            make_link_case(
                "store-drop", "DG-105", "drop 29500 and 29400 on the master's node, or one of them"
            ),
        ),
    ),
    CatalogueRow(
        6,
        "torchrun's own random master port is blocked",
        (
            make_link_case(
                "random-master",
                "VC-201",
                "as 1: that port comes out of the data range, so the probe's kernel-chosen ports meet the same rule",
            ),
        ),
    ),
    CatalogueRow(
        7,
        "the port range is pinned on some nodes only",
        (
            CauseCase(
                "range-drift",
                "VC-107",
                "sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
                bare=False,
            ),
            CauseCase(
                "range-drift-bare",
                "DG-107",
                "pin another range on one of two nodes that have no plan",
            ),
        ),
    ),
    CatalogueRow(
        8,
        "a container's network namespace has the default range",
        (
            CauseCase(
                "netns-range",
                "DG-108",
                "unshare -n on the node; in it a dummy interface that is up and a process called "
                "torchrun, python or pt_*",
                bare=False,
            ),
        ),
    ),
    CatalogueRow(
        9,
        "the range is too small",
        (
            CauseCase(
                "range-small", "DG-109", "sysctl -w net.ipv4.ip_local_port_range='50000 50009'"
            ),
        ),
    ),
    CatalogueRow(
        10,
        "the range is full",
        (
            CauseCase(
                "range-full",
                "DG-110",
                "a small range (64 ports) filled with sockets in TIME_WAIT or connections inside it",
            ),
        ),
    ),
    CatalogueRow(
        11,
        "reserved ports cover the range",
        (
            CauseCase(
                "range-reserved",
                "VC-108",
                "sysctl -w net.ipv4.ip_local_reserved_ports=50000-54095",
                bare=False,
            ),
        ),
    ),
    CatalogueRow(
        12,
        "a fixed port lies inside the range",
        (
            CauseCase(
                "port-in-range",
                "DG-112",
                "MASTER_PORT=50004 in the job's environment on every node",
            ),
        ),
    ),
    CatalogueRow(
        13,
        "nftables rules beside the node's firewall",
        (
            make_link_case(
                "second-table",
                "DG-113",
                "a table of one's own whose input chain drops the data range, while another table's chain accepts it",
            ),
        ),
    ),
    CatalogueRow(
        14,
        "firewalld: wrong zone, or runtime and permanent differ",
        (
            make_link_case(
                "wrong-zone",
                "DG-114",
                "the policy that opens the ports to the peers is asked for a zone that they do not come through",
                bare=False,
            ),
            CauseCase(
                "runtime-differs",
                "DG-214",
                "firewall-cmd --permanent ... without --reload, or the other way round, in a zone or policy in force",
                bare=False,
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        15,
        "something between the nodes drops (security group, switch ACL)",
        (
            make_link_case(
                "between",
                "DG-115",
                "drop on the bridge outside the node, or a netdev ingress hook on the host's end of its cable",
                node="victim",
            ),
        ),
    ),
    CatalogueRow(
        16,
        "EFA: the security group does not allow itself",
        (
            make_recorded_case(
                "efa", "DG-116", "as 15 between nodes that both have an EFA device", fields=LINK
            ),
        ),
    ),
    CatalogueRow(
        17,
        "RDMA works, its TCP side channel is blocked",
        (
            make_recorded_case(
                "rdma-tcp",
                "DG-117",
                "a blocked link between nodes whose RDMA ports are active",
                fields=LINK,
            ),
        ),
    ),
    CatalogueRow(
        18,
        "RoCE: GID types or link layers differ",
        (
            make_recorded_case(
                "roce-gid", "DG-118", "one node has a RoCE v2 GID, the other has none"
            ),
            make_recorded_case(
                "gid-pin",
                "VC-148",
                "NCCL_IB_GID_INDEX=3, and the port has no entry 3",
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        19,
        "GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME is absent everywhere",
        (
            CauseCase(
                "ifname-everywhere",
                "DG-119",
                "GLOO_SOCKET_IFNAME=eth9 on every node",
                node="first",
                fields=ENV,
            ),
        ),
    ),
    CatalogueRow(
        20,
        "... is absent on one node",
        (CauseCase("ifname-one", "DG-120", "the same on one node", fields=ENV),),
    ),
    CatalogueRow(
        21,
        "... is lo",
        (CauseCase("ifname-lo", "DG-121", "GLOO_SOCKET_IFNAME=lo on one node or all", fields=ENV),),
    ),
    CatalogueRow(
        22,
        "a node's own name leads to loopback",
        (
            CauseCase(
                "own-loopback", "VC-102", "127.0.1.1 HOSTNAME in /etc/hosts, nothing else for it"
            ),
        ),
    ),
    CatalogueRow(
        23,
        "a node's own name leads nowhere or to a foreign address",
        (
            CauseCase(
                "own-unknown", "VC-102", "no line for HOSTNAME in /etc/hosts and no name server"
            ),
            CauseCase("own-foreign", "DG-123", "203.0.113.9 HOSTNAME in /etc/hosts"),
        ),
    ),
    CatalogueRow(
        24,
        "the master's name leads to loopback on a worker",
        (
            CauseCase(
                "master-loopback", "DG-124", "127.0.0.1 MASTERNAME first in a worker's /etc/hosts"
            ),
        ),
    ),
    CatalogueRow(
        25,
        "MASTER_ADDR=localhost",
        (CauseCase("master-localhost", "DG-125", "MASTER_ADDR=localhost", fields=ENV),),
    ),
    CatalogueRow(
        26,
        "MASTER_ADDR is nobody's address",
        (
            CauseCase(
                "master-nobody",
                "DG-126",
                "MASTER_ADDR=an unused address of the cluster network",
                fields=ENV,
            ),
        ),
    ),
    CatalogueRow(
        27,
        "MASTER_ADDR is unknown",
        (CauseCase("master-unknown", "DG-127", "MASTER_ADDR=no-such-node", fields=ENV),),
    ),
    CatalogueRow(
        28,
        "MASTER_PORT differs",
        (CauseCase("master-port", "DG-128", "MASTER_PORT=29999 on one node", fields=ENV),),
    ),
    CatalogueRow(
        29,
        "the master port is in use",
        (
            CauseCase(
                "port-taken",
                "VC-109",
                "a listener on 0.0.0.0:29500 of the master's node",
                fields=(*NODE, "port"),
            ),
        ),
    ),
    CatalogueRow(
        30,
        "an earlier job still holds the master port",
        (
            CauseCase(
                "stale-job",
                "DG-130",
                "the listener's command line has torchrun, torch.distributed, deepspeed, accelerate "
                "or pt_elastic in it",
                fields=(*NODE, "port"),
            ),
        ),
    ),
    CatalogueRow(
        31,
        "WORLD_SIZE differs",
        (CauseCase("world-size", "DG-131", "WORLD_SIZE=3 on one node", fields=ENV),),
    ),
    CatalogueRow(
        32,
        "a rank twice, a rank missing",
        (CauseCase("node-rank", "DG-132", "NODE_RANK=0 on a second node", fields=ENV),),
    ),
    CatalogueRow(
        33,
        "a rank was killed or crashed",
        (
            make_recorded_case(
                "rank-killed",
                "DG-133",
                "the kernel log: out of memory, or segfault, of a python process",
            ),
        ),
    ),
    CatalogueRow(
        34,
        "NCCL picks an interface that peers cannot reach",
        (
            CauseCase(
                "nccl-interface",
                "DG-134",
                "NCCL_SOCKET_IFNAME=docker0 with a dummy docker0 that is up",
                fields=ENV,
            ),
            make_recorded_case(
                "nccl-library", "VC-601", "the library itself announces another address"
            ),
        ),
    ),
    CatalogueRow(
        35,
        "an interface is down",
        (CauseCase("interface-down", "VC-106", "ip link set eth1 down on one node"),),
    ),
    CatalogueRow(
        36,
        "IPv4 on one node, IPv6 on another",
        (
            CauseCase(
                "families",
                "DG-136",
                "GLOO_SOCKET_IFNAME unset; the node's name has only an IPv6 address of its own in /etc/hosts",
            ),
        ),
    ),
    CatalogueRow(
        37,
        "large packets are lost",
        (
            make_link_case(
                "mtu",
                "VC-208",
                "mtu 9000 at both ends over a 1500 path with offloads off; or drop packets longer than 1400 on the way",
            ),
        ),
    ),
    CatalogueRow(
        38,
        "packets are lost",
        (make_link_case("loss", "DG-138", "nft numgen random mod 100 < 20 drop, both directions"),),
    ),
    CatalogueRow(
        39,
        "a link is slow",
        (
            make_link_case(
                "slow", "DG-139", "tc tbf rate 10mbit on the node's eth1", options=("--bandwidth",)
            ),
            make_recorded_case(
                "slow-speed",
                "DG-239",
                "a card negotiated less than the others' cards",
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        40,
        "two machines have one address",
        (
            CauseCase(
                "duplicate",
                "DG-140",
                "another namespace on the bridge with the victim's address",
                fields=(*NODE, "peer"),
            ),
        ),
    ),
    CatalogueRow(
        41,
        "asymmetric route and strict rp_filter",
        (
            make_link_case(
                "rp-filter", "DG-141", "rp_filter=1 and a route to the peer over another interface"
            ),
        ),
    ),
    CatalogueRow(
        42,
        "the neighbour table is full",
        (make_recorded_case("neighbours", "DG-142", "entries against gc_thresh3, table_fulls"),),
    ),
    CatalogueRow(
        43,
        "conntrack is full",
        (make_recorded_case("conntrack", "DG-143", "nf_conntrack_count against nf_conntrack_max"),),
    ),
    CatalogueRow(
        44,
        "the listen backlog is too short",
        (
            CauseCase(
                "backlog",
                "DG-144",
                "sysctl -w net.core.somaxconn=1 on the master; an error once connections are lost",
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        45,
        "reverse lookups hang",
        (
            CauseCase(
                "dns-black-hole",
                "DG-145",
                "nameserver SILENT in resolv.conf, no peers in /etc/hosts",
            ),
        ),
    ),
    CatalogueRow(
        46,
        "clocks differ",
        (make_recorded_case("clock", "VC-103", "a handshake's time is 20 s off"),),
    ),
    CatalogueRow(
        47,
        "too few files",
        (
            CauseCase(
                "nofile",
                "VC-105",
                "* and root: nofile 24 in /etc/security/limits.d, or of sshd's unit",
            ),
        ),
    ),
    CatalogueRow(
        48,
        "locked memory or /dev/shm too small",
        (
            make_recorded_case("memlock", "DG-148", "64 KiB of locked memory on a node with RDMA"),
            CauseCase("shm", "DG-248", "mount a tmpfs of 16 MiB over /dev/shm"),
        ),
    ),
    CatalogueRow(
        49,
        "versions, GPUs, RDMA or plugins differ",
        (
            CauseCase(
                "torch-version",
                "VC-104",
                "another version in the metadata of the venv's torch",
                bare=False,
            ),
            make_recorded_case("gpus", "DG-149", "one node shows fewer GPUs, or another driver"),
            make_recorded_case("rdma-port", "DG-249", "an RDMA port is down on one node"),
        ),
    ),
    CatalogueRow(
        50,
        "proxy variables without exceptions for the peers",
        (
            CauseCase(
                "proxy",
                "DG-150",
                "https_proxy in /etc/environment, no_proxy without the peers",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        51,
        "SELinux denies",
        (
            make_recorded_case(
                "selinux", "DG-151", "avc: denied in the audit log, of a job's command"
            ),
        ),
    ),
    # Not of the 50, but between a user and an answer all the same.
    CatalogueRow(
        52,
        "a node does not answer",
        (
            CauseCase(
                "unreachable", "DG-201", "stop the node's sshd or the node", fields=("node", "seen")
            ),
            make_recorded_case(
                "no-python", "DG-202", "the module cannot run: no Python", fields=("node", "seen")
            ),
            make_recorded_case(
                "no-sender", "DG-203", "the probe could not be started", fields=("node", "seen")
            ),
            CauseCase("no-address", "VC-121", "ip addr del the cluster address"),
            CauseCase(
                "no-listener",
                "VC-213",
                "a range whose every port is held, so that no listener can be opened",
                by=RECORDED,
                fields=("node", "seen"),
            ),
        ),
    ),
    CatalogueRow(
        53,
        "no route to a peer",
        (
            make_link_case("no-route", "DG-155", "ip route replace unreachable PEER on the node"),
            make_link_case(
                "wrong-source",
                "VC-206",
                "ip route replace PEER dev eth1 src another address of the node",
            ),
        ),
    ),
    CatalogueRow(
        55,
        "a route or a rule of a node refuses to send to a peer",
        (
            make_link_case(
                "refused",
                "DG-155",
                "ip route add blackhole or prohibit PEER; ip rule add to PEER prohibit",
            ),
            make_link_case(
                "refused-account",
                "DG-255",
                "ip rule add uidrange 1000-1999 to PEER prohibit",
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        56,
        "a node sends to a peer over another card",
        (
            make_link_case(
                "astray",
                "DG-156",
                "ip rule from the node's own address to a table whose route leaves over another card",
            ),
        ),
    ),
    CatalogueRow(
        57,
        "a neighbour entry made by hand is not the peer's",
        (
            make_link_case(
                "neighbour-by-hand", "DG-157", "ip neigh replace PEER lladdr of nobody, permanent"
            ),
        ),
    ),
    CatalogueRow(
        58,
        "something beside the packet filter throws packets away, and the kernel counts them",
        (
            make_link_case("ipsec", "DG-158", "ip xfrm policy add … dir out action block"),
            make_link_case(
                "queue", "DG-158", "tc qdisc add dev eth1 root pfifo limit 0 or bfifo limit 100"
            ),
        ),
    ),
    CatalogueRow(
        59,
        "nodes share what each must have of its own",
        (
            CauseCase(
                "one-name",
                "DG-159",
                "hostname twins on both; an error where they share the boot id as well (containers)",
                severity="warning",
            ),
            CauseCase(
                "one-image",
                "DG-162",
                "the machine-id and the host key of the one node's files on the other, too",
                severity="warning",
            ),
            make_recorded_case("one-mac", "DG-259", "the cluster cards show one hardware address"),
        ),
    ),
    CatalogueRow(
        60,
        "the rank or the size of an earlier job stays behind",
        (
            CauseCase(
                "rank-left",
                "DG-160",
                "RANK=0 in /etc/environment",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        61,
        "NCCL is told to leave the cluster's card out",
        (
            CauseCase(
                "ifname-left-out",
                "DG-161",
                "NCCL_SOCKET_IFNAME=^eth1 in /etc/environment",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    GPUS,
    CatalogueRow(
        63,
        "a kernel setting comes back with another value at the next boot",
        (
            make_boot_case(
                "boot-sysctl",
                "DG-163",
                "tcp_mtu_probing=2 in a file of /etc/sysctl.d, not read yet",
            ),
        ),
    ),
    CatalogueRow(
        64,
        "a service that the node needs is not started at the next boot",
        (make_boot_case("boot-unit", "DG-164", "systemctl disable of the clock's daemon"),),
    ),
    CatalogueRow(
        65,
        "a firewall comes back at the next boot",
        (
            make_boot_case(
                "boot-firewall", "DG-165", "nftables.service enabled, its file drops, not started"
            ),
        ),
    ),
    CatalogueRow(
        66,
        "addresses or routes are gone after the next boot",
        (
            make_boot_case(
                "boot-address",
                "DG-166",
                "the address taken out of the owner's file, not off the card",
            ),
            make_boot_case("boot-route", "DG-266", "ip route add of a network with the peer in it"),
        ),
    ),
    CatalogueRow(
        67,
        "mounts are others after the next boot",
        (
            make_recorded_case(
                "boot-mount", "DG-167", "an NFS mount that no file has", severity="warning"
            ),
            make_boot_case(
                "boot-fstab",
                "DG-267",
                "a line of fstab without nofail for a disk that is not there",
            ),
        ),
    ),
    CatalogueRow(
        68,
        "SELinux is in another mode after the next boot",
        (
            make_recorded_case(
                "boot-selinux", "DG-168", "setenforce 0 under SELINUX=enforcing", severity="warning"
            ),
        ),
    ),
    CatalogueRow(
        69,
        "another kernel, or other arguments, at the next boot",
        (
            make_recorded_case(
                "boot-arguments", "DG-169", "the entry lacks iommu=pt", severity="warning"
            ),
            make_recorded_case(
                "boot-driver", "DG-269", "no nvidia.ko for the next kernel", severity="warning"
            ),
        ),
    ),
    CatalogueRow(
        70,
        "limits of services are others after the next boot",
        (
            make_recorded_case(
                "boot-limits", "DG-170", "DefaultLimitMEMLOCK in a new file", severity="warning"
            ),
        ),
    ),
    CatalogueRow(
        71,
        "NCCL is told to read a file that is not there",
        (
            CauseCase(
                "nccl-conf-gone",
                "DG-171",
                "NCCL_CONF_FILE=/etc/nccl/gone.conf in /etc/environment",
                fields=ENV,
                severity="warning",
            ),
        ),
    ),
    CatalogueRow(
        72,
        "something that no rule knows, and that the nodes do not have alike",
        (
            make_recorded_case(
                "unlike",
                "DG-172",
                "a link shut in between, arp_ignore set on one node",
                severity="note",
            ),
        ),
    ),
    CatalogueRow(
        75,
        "a service of the plan (fullmesh_services) cannot be reached",
        (
            make_link_case("service-drop", "DG-175", "as 1 for one port of a service"),
            make_link_case("service-loopback", "DG-275", "a service that listens on 127.0.0.1"),
        ),
    ),
    CatalogueRow(
        80,
        "the kernel itself says why it throws the packets of a link away",
        (
            make_recorded_case(
                "reason", "DG-180", "its packet filter, with a rule that no paper evaluates"
            ),
        ),
    ),
    CatalogueRow(
        81,
        "a program beside the packet filter stops packets",
        (make_link_case("xdp", "DG-181", "an XDP program at the card that drops the data range"),),
    ),
    CatalogueRow(
        82,
        "only the account that runs jobs is stopped",
        (
            make_link_case(
                "job-account", "DG-182", "nft output: meta skuid of the jobs' account, drop"
            ),
        ),
    ),
    CatalogueRow(
        83,
        "only the unit that jobs run in is held back",
        (CauseCase("job-unit", "DG-183", "IPAddressDeny=any in a drop-in of fullmesh-job@"),),
    ),
    CatalogueRow(
        85,
        "logins of the account that runs jobs are held to too little",
        (CauseCase("login-limits", "DG-185", "jobber - nproc 20 in /etc/security/limits.d"),),
    ),
    CatalogueRow(
        87,
        "a rule of a node stops ARP",
        (
            CauseCase(
                "arp-drop",
                "DG-187",
                "a chain of family netdev at the card drops ether type arp",
                fields=("node", "peer", "direction", "seen"),
            ),
        ),
    ),
    CatalogueRow(
        86,
        "ranks run in the network of a container that peers do not reach",
        (
            CauseCase(
                "container-nat",
                "DG-186",
                "a rank in a network namespace behind masquerade",
                fields=ENV,
            ),
        ),
    ),
    CatalogueRow(
        84,
        "only root is stopped, the account that runs jobs is not",
        (
            make_link_case(
                "root-account", "DG-184", "nft output: meta skuid 0, drop", severity="warning"
            ),
        ),
    ),
)


def index_cases() -> dict[str, CauseCase]:
    """Every case by its name."""
    return {case.name: case for row in ROWS for case in row.cases}
