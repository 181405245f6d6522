"""Pages of the diagnosis' codes, for the site and ``explain``.

One text a code and nothing that decides anything, so longer than other files.
"""

from __future__ import annotations

from dataclasses import dataclass

from fullmesh.diagnose import catalogue
from fullmesh.diagnose.codes import CODES
from fullmesh.verify import xids

PATH = "docs/causes/diagnose.md"


@dataclass(frozen=True)
class CausePage:
    """What is worth knowing of a cause.

    Attributes:
        why: the mechanism, and what a job does under it.
        prove: a command that shows it without Fullmesh.
        fix: what to do.
        source: where the mechanism was measured or read; empty for our own rules.
    """

    why: str
    prove: str
    fix: str
    source: str = ""


FAULTS = "measured with torch 2.13"
RANGE = "net.ipv4.ip_local_port_range"
APPLY = "ansible-playbook site.yml -i INVENTORY --tags"
PAGES: dict[str, CausePage] = {
    "DG-101": CausePage(
        "Gloo and NCCL take any port of the range, so a job works or hangs by chance. Listeners at "
        "both ends, evenly between"
        " them and on both sides of every border that a rule draws show which stretches are shut.",
        "nft list ruleset | grep dport; compare with sysctl " + RANGE,
        "Open the whole range to the peers, or pin the kernel's range to what is open.",
        FAULTS,
    ),
    "DG-105": CausePage(
        "The store is the first thing that a rank connects to: rank 0 says 'Timed out waiting for clients', the others"
        " 'client socket has timed out'.",
        "on a worker: nc -zv MASTER 29500 while something listens there",
        "Open the store's port (29500) and the rendezvous' (29400) to the peers on the master.",
        FAULTS,
    ),
    "DG-107": CausePage(
        "A firewall opens one range of ports. A node whose kernel takes ports from another one listens where nobody"
        " may come; whether a job fails depends on which node connects (Gloo: the higher address to the lower one).",
        "on every node: sysctl " + RANGE,
        "Give all nodes one range, in /etc/sysctl.d; role kernel_tuning does.",
        FAULTS,
    ),
    "DG-108": CausePage(
        "A new network namespace starts with the kernel's default range, whatever its host has "
        "pinned. A job in a container"
        " of its own network listens outside the opened range.",
        "nsenter -t PID -n sysctl " + RANGE,
        "Use --network=host, or --sysctl on the container, or securityContext.sysctls on the pod.",
        "measured with nested namespaces",
    ),
    "DG-109": CausePage(
        "A rank needs a listening port for every process group and a port for every connection; "
        "restarts leave some in TIME_WAIT"
        " for a minute. Too few give 'Address already in use' or 'Cannot assign requested address', "
        "or no message at all.",
        "sysctl " + RANGE,
        "Widen the range; 4096 ports are the default of Fullmesh.",
        FAULTS,
    ),
    "DG-110": CausePage(
        "All ports are taken: by sockets in TIME_WAIT after fast restarts, or by something that leaks connections.",
        "ss -tan | awk '{print $1}' | sort | uniq -c",
        "Wait a minute, widen the range, find who holds the connections (ss -tanp).",
        FAULTS,
    ),
    "DG-112": CausePage(
        "The kernel gives any port of its range to any outgoing connection. A fixed port in there is "
        "taken now and then,"
        " which gives EADDRINUSE at random.",
        "sysctl " + RANGE + " net.ipv4.ip_local_reserved_ports",
        "Choose a port outside the range, or reserve it.",
        FAULTS,
    ),
    "DG-113": CausePage(
        "In nftables an accept ends one base chain only: the next table still drops. So opening "
        "ports in firewalld does not help"
        " while a table of Docker, of a hardening script or of a forgotten experiment drops them.",
        "nft list ruleset; nft list chains",
        "Remove the rule, or add the peers to it; find who loads it at boot (grep -r TABLE /etc).",
        "nft(8); " + FAULTS,
    ),
    "DG-114": CausePage(
        "firewalld sorts packets into zones by source first, then by interface, and asks that zone and the policies "
        "that have it, or ANY, among their ingress zones. The one that the peers come through does not open the ports; "
        "another zone, or a policy for another zone, does.",
        "firewall-cmd --get-active-zones; firewall-cmd --get-active-policies; "
        "firewall-cmd --get-zone-of-interface=INTERFACE",
        "Let a policy for ANY zone open the ports to the peers: " + APPLY + " firewall.",
        "firewalld.zones(5), firewalld.policies(5)",
    ),
    "DG-115": CausePage(
        "Taps on both nodes saw the packets leave and did not see them arrive, so it is neither "
        "node's firewall: a cloud security"
        " group, a switch's access list, a hypervisor, a router.",
        "tcpdump -ni INTERFACE 'tcp[tcpflags] & tcp-syn != 0' on both nodes",
        "Allow the data range and the named ports between the nodes there, in both directions.",
        "AF_PACKET taps before and behind the nodes' own firewalls",
    ),
    "DG-116": CausePage(
        "EFA traffic is allowed by security group, not by port: the group must allow all traffic to "
        "and from itself, by its own"
        " id. An egress rule for 0.0.0.0/0 is not enough. Jobs hang with NET/OFI error 4126.",
        "aws ec2 describe-security-groups --group-ids ID",
        "Add a rule for all traffic from and to the group itself.",
        "aws-ofi-nccl#663",
    ),
    "DG-117": CausePage(
        "NCCL opens a TCP listener for every RDMA connection to exchange addresses; RDMA tests that "
        "pass prove nothing about it.",
        "nft list ruleset; ./fullmesh verify",
        "Open the data range between the nodes, as for a job without RDMA.",
        "NCCL 2.30, net_ib/connect.cc",
    ),
    "DG-118": CausePage(
        "RoCE v2 needs a GID of that type, which the port gets from the IP address of its network "
        "interface. With none, or with InfiniBand"
        " at the other end, NCCL ends with completion status 12.",
        "show_gids; cat /sys/class/infiniband/DEVICE/ports/1/gid_attrs/types/*",
        "Give the interface its address; leave NCCL_IB_GID_INDEX unset.",
        "nccl#426, nccl#1131",
    ),
    "DG-119": CausePage(
        "Gloo stops with 'Unable to find address for', NCCL with 'no socket interface found' or goes "
        "on over another one.",
        "ip -br link; env | grep SOCKET_IFNAME",
        "Name the interface of the cluster network, or unset the variable where names differ between nodes.",
        FAULTS,
    ),
    "DG-120": CausePage(
        "That node's ranks stop at once, and the others wait for their time-out: the message stands "
        "in another log than the cause.",
        "ip -br link; env | grep SOCKET_IFNAME",
        "Give every node the name of its own interface; role cluster_env does.",
        FAULTS,
    ),
    "DG-121": CausePage(
        "Every rank announces 127.0.0.1, so peers connect to themselves: refused at once, or a hang "
        "of five times the time-out.",
        "env | grep SOCKET_IFNAME",
        "Name the interface of the cluster network.",
        FAULTS,
    ),
    "DG-123": CausePage(
        "Without GLOO_SOCKET_IFNAME Gloo takes the address of the node's own name. When that is not "
        "on the node it warns and"
        " takes loopback.",
        "getent ahosts $(hostname)",
        "Put the node's own address and name into /etc/hosts; fix the DNS entry.",
        FAULTS,
    ),
    "DG-124": CausePage(
        "The worker looks for the store on itself: refused until the time-out, while rank 0 counts "
        "'1/2 clients joined'.",
        "on the worker: getent ahosts MASTER",
        "Take the master's name off the loopback line of /etc/hosts; use an address in MASTER_ADDR.",
        FAULTS,
    ),
    "DG-125": CausePage(
        "Every node looks for the store on itself, so only the ranks of the first node meet.",
        "env | grep MASTER_ADDR",
        "Set MASTER_ADDR to the master's cluster address on all nodes.",
        FAULTS,
    ),
    "DG-126": CausePage(
        "Nobody answers at that address: 'No route to host' after three seconds of ARP, or a time-out.",
        "ping MASTER_ADDR; ip neigh show",
        "Set MASTER_ADDR to the master's cluster address on all nodes.",
        FAULTS,
    ),
    "DG-127": CausePage(
        "torch says 'gai error: -3 - Temporary failure in name resolution' and repeats until the time-out.",
        "getent ahosts NAME",
        "Put the name into /etc/hosts, or use the address.",
        FAULTS,
    ),
    "DG-128": CausePage(
        "Ranks of that node knock at a port where nobody listens.",
        "env | grep MASTER_PORT on every node",
        "Set one port on all nodes.",
        FAULTS,
    ),
    "DG-130": CausePage(
        "A store of before answers the new ranks with old keys, or the new one ends with EADDRINUSE "
        "while the other ranks hang"
        " past their time-out.",
        "ss -ltnp 'sport = :29500'",
        "End the old job on all its nodes.",
        FAULTS,
    ),
    "DG-131": CausePage(
        "The store waits for ranks that nobody starts ('2/3 clients joined'), or ranks come that nobody expects.",
        "env | grep -E 'WORLD_SIZE|NNODES' on every node",
        "Set one value on all nodes; better, let torchrun work it out.",
        FAULTS,
    ),
    "DG-132": CausePage(
        "Two ranks with one number overwrite each other's keys, and the missing one is waited for: "
        "'wait timeout, keys: …/RANK'.",
        "env | grep -E 'RANK' on every node",
        "Give every node its own NODE_RANK.",
        FAULTS,
    ),
    "DG-133": CausePage(
        "A rank that dies between the store and the first collective leaves the others waiting for "
        "it; its own log may be empty.",
        "journalctl -k --since -30min",
        "Give the job less memory per rank, or fix what crashed.",
        FAULTS,
    ),
    "DG-134": CausePage(
        "NCCL announces the first interface that its rules allow. Bridges of containers and VPNs "
        "have addresses that other nodes"
        " cannot reach, or that every node has.",
        "NCCL_DEBUG=INFO and look for 'Bootstrap: Using'",
        "Set NCCL_SOCKET_IFNAME=INTERFACE with '=' in front of the name, which means: exactly this one.",
        "NCCL 2.30, socket.cc; nccl#697",
    ),
    "DG-136": CausePage(
        "Gloo compares the two addresses and stops: 'ss1.ss_family == ss2.ss_family. 2 vs 10'.",
        "getent ahosts $(hostname); ip -br address",
        "Give all nodes the same family first: in GLOO_SOCKET_IFNAME's interface or in /etc/hosts.",
        FAULTS,
    ),
    "DG-138": CausePage(
        "Each lost segment costs a retransmission time of 200 ms and more; at a few per cent "
        "collectives crawl, at forty they fail.",
        "nstat -az TcpRetransSegs; ip -s link; ethtool -S INTERFACE",
        "Look at cables, optics, duplex and switch queues.",
        "TCP_INFO, without needless repetitions (DSACK); " + FAULTS,
    ),
    "DG-139": CausePage(
        "The slowest link sets the pace of every collective; nothing ever says so. Who is slow whoever the peer is has"
        " a card, cable, switch port or queue that is slow; a pair that is slow alone, the way between.",
        "ethtool INTERFACE; tc qdisc show dev INTERFACE; iperf3",
        "Fix the negotiation, take the shaping away.",
        FAULTS,
    ),
    "DG-140": CausePage(
        "Whoever won ARP last gets the packets, so connections work and break by turns, or reach a "
        "machine that is not in the job.",
        "arping -D -I INTERFACE ADDRESS; ip neigh show",
        "Find the MAC in the switch's table and give that machine an address of its own. A kernel answers on every card"
        " for all of its addresses, also for one on lo (arp_ignore=0), so a node of the plan is named where it is one.",
        FAULTS,
    ),
    "DG-141": CausePage(
        "With rp_filter=1 the kernel drops a packet whose sender it would answer over another "
        "interface. Several NICs in one network"
        " or a stray route are enough. It looks like a firewall that drops.",
        "nstat -az TcpExtIPReversePathFilter; ip route get PEER",
        "Fix the route, or set rp_filter=2 on the cluster interface.",
        "ip-sysctl.rst; " + FAULTS,
    ),
    "DG-142": CausePage(
        "Beyond gc_thresh3 entries the kernel forgets neighbours while it talks to them: 'neighbour table overflow'.",
        "ip neigh | wc -l; sysctl net.ipv4.neigh.default.gc_thresh3",
        "Raise gc_thresh1 to 3 above the number of peers; role kernel_tuning does.",
        FAULTS,
    ),
    "DG-143": CausePage(
        "New connections vanish, old ones live: 'nf_conntrack: table full, dropping packet'.",
        "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
        "Raise nf_conntrack_max, or find who opens so many.",
    ),
    "DG-144": CausePage(
        "All ranks connect to the store at once. What does not fit into the backlog is dropped and "
        "tried again after a second and more:"
        " start-up takes ten times as long.",
        "sysctl net.core.somaxconn; nstat -az TcpExtListenOverflows",
        "Set net.core.somaxconn to at least twice the number of ranks: each opens two connections to the store.",
        FAULTS,
    ),
    "DG-145": CausePage(
        "TCPStore looks up the name of every client that connects, one after the other. A silent "
        "name server costs seconds each:"
        " 'hostname of the client socket cannot be retrieved'.",
        "time getent hosts PEER",
        "Put the peers into /etc/hosts; fix /etc/resolv.conf.",
        "pytorch#159007",
    ),
    "DG-148": CausePage(
        "RDMA registers the memory that it sends from: 'ibv_reg_mr: Cannot allocate memory'.",
        "ulimit -l",
        "memlock unlimited in /etc/security/limits.d and LimitMEMLOCK=infinity in units.",
        "nccl-tests#206",
    ),
    "DG-149": CausePage(
        "Ranks of a node with fewer GPUs share one or do not start; drivers that differ give "
        "'message truncated' or nothing; a GPU with"
        " an Xid hangs in the first kernel.",
        "nvidia-smi; dmesg | grep -i xid",
        "Bring the nodes to one driver, take a broken GPU out.",
        "nccl#1328",
    ),
    "DG-150": CausePage(
        "Gloo, NCCL and the store do not mind proxies; what speaks HTTP between ranks (vLLM, Ray, "
        "Hugging Face) asks the proxy for the peers.",
        "env | grep -i proxy",
        "Add the peers' addresses and names to no_proxy; role cluster_env does.",
        "vllm#5779",
    ),
    "DG-151": CausePage(
        "SELinux in enforcing mode denied a system call of a job's process; the job only sees 'Permission denied'.",
        "ausearch -m avc -ts recent",
        "Make a policy of it (audit2allow), or see role selinux_mode.",
    ),
    "DG-155": CausePage(
        "A blackhole, prohibit or unreachable entry, in a routing table or among the rules that pick one, makes the"
        " node's own kernel refuse: connect() ends at once with EINVAL, EACCES or EHOSTUNREACH, and answers to the peer"
        " are thrown away in silence. No packet filter shows it. The diagnosis asks the kernel as ip route get does,"
        " with each port.",
        "ip route get PEER; ip route show table all | grep -E 'blackhole|prohibit|unreachable'; ip rule",
        "Take the entry away, and whoever sets it: VPN clients, fail2ban's route action, boot scripts.",
        "measured: errno of connect() and of RTM_GETROUTE for each kind",
    ),
    "DG-156": CausePage(
        "A rule or a more specific route sends what is for the peer, or only the answers to it, over another card. The"
        " peer drops what comes from there, or it never arrives: both ends look healthy, no firewall counts anything.",
        "ip route get PEER from OWN; ip rule; ip route show table all",
        "Take the rule or the route away, or give the other network a way to the peer as well.",
        "measured: ip rule from OWN lookup TABLE",
    ),
    "DG-157": CausePage(
        "The kernel never asks anew for an entry that is PERMANENT or NOARP. After the peer's card was changed, or the"
        " entry was copied from elsewhere, every packet for the peer goes to a machine that drops it, or to none.",
        "ip neigh show PEER nud all (without that NOARP is left out); on the peer: ip link show INTERFACE",
        "ip neigh del PEER dev INTERFACE, and take the line out of whatever sets it at boot.",
        "measured: drop reason OTHERHOST at whoever gets the frame",
    ),
    "DG-158": CausePage(
        "Not only nftables stops packets: policies of IPsec (a VPN that is half taken down), queues of tc, signed"
        " connections. Each has a counter of the network namespace, and what grew while the probe ran is said.",
        "cat /proc/net/xfrm_stat; tc -s qdisc; nstat -az | grep -iE 'drop|filter|md5|ao'",
        "What the counter names: ip xfrm policy delete, tc qdisc del, the program that asks for signatures.",
        "measured: XfrmOutPolBlock, XfrmInPolBlock, drops of pfifo",
    ),
    "DG-180": CausePage(
        "The kernel names a reason for every packet that it throws away (tracepoint skb:kfree_skb, since 5.17). While"
        " the probe runs as root it is watched in an instance of tracefs of our own. Where packets of a link end at a"
        " node, no rule is known to stop them, and a reason fits, the reason is said. The event has no addresses:"
        " on a busy node the packets of somebody else may be among them.",
        "cd /sys/kernel/tracing; echo 1 > events/skb/kfree_skb/enable; cat trace_pipe",
        "What the reason names.",
        "measured: NETFILTER_DROP at nft_do_chain, OTHERHOST, QDISC_DROP, NEIGH_FAILED (kernel 6.18)",
    ),
    "DG-181": CausePage(
        "An XDP program sees what a card receives before any tap or packet filter; filters of tc stand between tap and"
        " packet filter; BPF programs of a control group see what its processes send and get. None of them is in nft's"
        " list. That one drops the packets is not proved: it is the only one known who could.",
        "ip -d link show CARD; tc filter show dev CARD ingress; bpftool net; bpftool cgroup tree",
        "ip link set dev CARD xdp off, tc filter del, or a rule for the peers in whatever loads it.",
        "measured: native XDP on veth drops without any reason or counter (kernel 6.18)",
    ),
    "DG-182": CausePage(
        "The probe connects as whoever runs it; rules of nftables (meta skuid, skgid) and of routing (uidrange) may"
        " stop one account and no other. As root the probe tries some listeners again as the account of jobs: the"
        " setting launchers_job_user, else User= of fullmesh-job@, else whoever's ranks run.",
        "runuser -u ACCOUNT -- python3 -c \"import socket; socket.create_connection(('PEER', PORT), 3)\"",
        "Take the rule away, or let the account through to the peers.",
        "measured: meta skuid drops in the chain output while root's connections are open",
    ),
    "DG-184": CausePage(
        "Rules of nftables (meta skuid, skgid) and of routing (uidrange) may stop root, or whoever asked, and nobody"
        " else. Where the probe is stopped it tries some listeners again as the account of jobs; if that reaches every"
        " one of them while the probe is still stopped, jobs are not hit. Ansible, node_ssh and whatever else runs as"
        " that account between the nodes are.",
        "runuser -u ACCOUNT -- python3 -c \"import socket; socket.create_connection(('PEER', PORT), 3)\"",
        "Take the rule away, or let root through to the peers as well.",
        "measured: meta skuid 0 drops in the chain postrouting while the jobs' connections are open",
    ),
    "DG-183": CausePage(
        "A unit is a place of its own: systemd filters its packets (IPAddressDeny=, by BPF at its control group), takes"
        " its network (PrivateNetwork=), forbids families of addresses and sets its limits. The probe runs outside of"
        " it and gets through. systemctl show says what a job would get, with all drop-ins.",
        "systemctl show fullmesh-job@x -p IPAddressDeny -p PrivateNetwork -p RestrictAddressFamilies -p LimitNOFILE",
        "systemctl cat fullmesh-job@ shows who sets it; take it out, then systemctl daemon-reload.",
        "systemd.resource-control(5), systemd.exec(5)",
    ),
    "DG-185": CausePage(
        "Jobs that are started by ssh (pdsh, mpirun, torchrun by hand) get what the node's PAM gives the account that"
        " logs in: /etc/security/limits.conf, limits.d. The probe's own limits are others, as root's mostly are. As"
        " root the probe opens one session of the account with su, without a profile, from the limits of sshd, and"
        " reads /proc/self/limits there; it is said only where the probe itself is allowed enough.",
        "su -s /bin/sh ACCOUNT -c 'ulimit -Sn; ulimit -l; ulimit -u'",
        "A file in /etc/security/limits.d: 'ACCOUNT - nofile 1048576', 'ACCOUNT - memlock unlimited'; log in anew.",
        "pam_limits(8), limits.conf(5), getrlimit(2)",
    ),
    "DG-186": CausePage(
        "Docker and podman give a container a network of its own, with an address that only its machine knows, and hide"
        " it behind the machine's (NAT). Its ranks announce the address inside, and nobody can connect to that. As root"
        " the probe goes into the network of ranks that run now, connects to some listeners of the peers that the node"
        " itself reaches, and hears from them which address they see.",
        "nsenter -t PID -n ip -br address; nsenter -t PID -n ip route get PEER",
        "Start the container with --network=host (docker, podman; hostNetwork: true in Kubernetes), or give it an"
        " address of the cluster network (macvlan, SR-IOV) and no NAT.",
        "docker run(1), --network; measured: a namespace behind masquerade is seen by the node's address",
    ),
    "DG-187": CausePage(
        "Before the first packet a node asks who has the peer's address (ARP, RFC 826). Chains of the family netdev, at"
        " the card, and of the family arp see that; those for IP and TCP do not. Where nobody answers, both ends' rules"
        " are asked what they do with it.",
        "nft list tables; ip neigh show; arping -c 1 -I CARD PEER",
        "Take the rule away, or let ARP through before it (netdev: ether type arp accept).",
        "nft(8), ARP ADDRESS FAMILY and NETDEV ADDRESS FAMILY",
    ),
    "DG-159": CausePage(
        "NCCL makes its hash of a machine from the host name and the boot id, and tries shared memory"
        " between ranks of one hash. Containers of one machine share the boot id, so their names alone tell"
        " them apart. Real machines differ in it, and there schedulers, MPI and dashboards count them by"
        " name.",
        "on every node: hostname; cat /proc/sys/kernel/random/boot_id",
        "Give each node a name of its own, or its jobs an NCCL_HOSTID.",
        "NCCL, misc/utils.cc (getHostHash)",
    ),
    "DG-160": CausePage(
        "torchrun, srun and mpirun number their processes themselves and overwrite these variables. A"
        " script that is started by hand, or by a launcher that finds them set, takes the same rank on every"
        " node, or waits for a size that nobody has.",
        "grep -rE '(RANK|WORLD_SIZE)=' /etc/environment /etc/profile.d /etc/systemd/system.conf",
        "Take them out of the file; give them on the command line of the one job that needs them.",
        "",
    ),
    "DG-161": CausePage(
        "A value that begins with ^ names the cards that NCCL must not take, by their beginnings. With the"
        " cluster's own card among them NCCL announces another one: slow where the peers are reached over"
        " it, a hang where they are not.",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET; the line 'Bootstrap: Using'",
        "Name the card that is meant: NCCL_SOCKET_IFNAME==INTERFACE.",
        "NCCL, os/linux.cc",
    ),
    "DG-162": CausePage(
        "Machines that were copied after their first boot. systemd-networkd and NetworkManager make their DHCP"
        " identity from the machine-id: a server may give both one address. With one host key ssh cannot tell the nodes"
        " apart, and whoever reads the key on one can stand for the other. Where all nodes boot one image on purpose"
        " and have fixed addresses, it does no harm to a job.",
        "on every node: cat /etc/machine-id; ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
        "Make both anew on all nodes but one; empty /etc/machine-id and take the keys out of the image.",
        "machine-id(5); systemd.network(5), DUIDType",
    ),
    "DG-163": CausePage(
        "systemd-sysctl reads sysctl.d(5) at boot: of files with one name that of /etc, then /run,"
        " /usr/local/lib, /usr/lib; in the order of their names, a later value wins, a key that is named wins"
        " over patterns. What was set by hand is lost, and what a file says comes back, whoever wrote it"
        " meanwhile. /etc/sysctl.conf counts only where a link in /etc/sysctl.d leads to it. What tuned's"
        " profile sets is left out: it comes later.",
        "systemd-analyze cat-config sysctl.d | grep KEY; sysctl KEY",
        "Write what is meant into a file of its own in /etc/sysctl.d (role kernel_tuning does), and look with"
        " systemd-analyze whether a later file takes it back.",
        "sysctl.d(5); systemd, src/sysctl/sysctl.c",
    ),
    "DG-164": CausePage(
        "A service that was started by hand, or whose link somebody took away, is not there after a reboot: no ssh, no"
        " address, a clock that drifts, GPUs without their fabric.",
        "systemctl list-unit-files --state=disabled,masked; systemctl is-active NAME",
        "systemctl enable NAME; systemctl unmask NAME before where it is masked.",
        "systemctl(1), is-enabled",
    ),
    "DG-165": CausePage(
        "Somebody stopped a firewall to make a job run (systemctl stop firewalld, nft flush ruleset) and left"
        " it enabled: after the next reboot, months later, the job fails and nobody changed anything.",
        "systemctl is-enabled firewalld nftables ufw; systemctl is-active firewalld; nft list tables",
        "Disable it for good, or start it now and open the cluster's ports: " + APPLY + " firewall",
    ),
    "DG-166": CausePage(
        "ip addr add lasts until the next boot or until the card's owner configures it anew. No file of"
        " NetworkManager (below /run it is lost, too), netplan, systemd-networkd, ifupdown, ifcfg, cloud-init, and no"
        " script or unit has the address; a card whose files ask for a lease is not judged.",
        "grep -r ADDRESS /etc/NetworkManager/system-connections /etc/netplan /etc/systemd/network /etc/network",
        "Give the card the address in the files of its owner: " + APPLY + " network",
    ),
    "DG-167": CausePage(
        "A shared file system that was mounted by hand, or a /dev/shm that was made larger with mount -o remount, is as"
        " before after a reboot: the job does not find its data, or NCCL and the DataLoader their shared memory.",
        "findmnt --fstab; findmnt -t nfs,nfs4,lustre,ceph,tmpfs",
        "A line in /etc/fstab, with _netdev,nofail for what comes over the network.",
        "fstab(5)",
    ),
    "DG-168": CausePage(
        "setenforce changes what runs, /etc/selinux/config what boots. A node that works since setenforce 0 is"
        " enforcing again after the next boot; one that was made enforcing by hand is not.",
        "getenforce; grep ^SELINUX= /etc/selinux/config",
        "Say in the file what is meant, and solve the denials: ausearch -m avc; role selinux_mode.",
        "setenforce(8)",
    ),
    "DG-169": CausePage(
        "Arguments that were typed in at the boot menu, or changed in the files since, make the next boot"
        " another machine: other names of cards (net.ifnames), no IPv6, another IOMMU, other huge pages.",
        "cat /proc/cmdline; grubby --info=DEFAULT (EL); grep vmlinuz /boot/grub/grub.cfg | head -1 (Debian, Ubuntu)",
        "grubby --update-kernel=ALL --args=... (EL); /etc/default/grub and update-grub (Debian, Ubuntu).",
    ),
    "DG-170": CausePage(
        "systemd reads its own configuration when it starts (or daemon-reexec), and a unit's file at"
        " daemon-reload: until then services run with the limits of before, after the next boot with others.",
        "systemctl show -p DefaultLimitMEMLOCK -p DefaultLimitNOFILE; systemd-analyze cat-config systemd/system.conf;"
        " systemctl show UNIT -p NeedDaemonReload",
        "systemctl daemon-reexec (daemon-reload for a unit), then restart what needs it.",
        "systemd-system.conf(5)",
    ),
    "DG-171": CausePage(
        "NCCL reads the file of NCCL_CONF_FILE in place of ~/.nccl.conf, not beside it, and a file that it cannot"
        " open it passes over in silence: what the account's file said (a card, an algorithm) holds no more."
        " /etc/nccl.conf is read all the same. NCCL expands no ~ and no variable in the name.",
        "env | grep NCCL_CONF_FILE; ls -l $NCCL_CONF_FILE; NCCL_DEBUG=INFO shows the settings that NCCL has",
        "Write the file, or take the variable out.",
        "NCCL, misc/param.cc, initEnvFunc",
    ),
    "DG-172": CausePage(
        "No rule knows why a link is as it is. So everything that the nodes said is held against one another, without a"
        " list of what may be wrong: what one has otherwise than the others (of two nodes nobody knows which is"
        " right), and what several share that each must have of its own (addresses, hardware addresses, host name,"
        " machine-id). Shown is what can do this to packets at all, the likeliest first. It proves nothing.",
        "change one of them on one node so that it is as on the others, and ask again",
        "Make alike what need not differ; the first that heals the link was the cause, and worth an issue: a rule can"
        " know it the next time.",
    ),
    "DG-266": CausePage(
        "ip route add lasts until the next boot or until the card's owner configures it anew. Looked at are"
        " routes of the main table that lead to a peer and that nobody learnt (no kernel, DHCP, router or daemon).",
        "ip route show proto boot; grep -r NETWORK /etc/NetworkManager /etc/netplan /etc/systemd/network",
        "Write it into the files of the card's owner: routes of fullmesh_links (docs/links.md), then "
        + APPLY
        + " network",
    ),
    "DG-267": CausePage(
        "Without nofail the boot waits 90 s for the disk or server and then stops in the emergency shell,"
        " before ssh: the node is gone until somebody comes to its console.",
        "findmnt --verify; findmnt --fstab -n -o TARGET | while read point; do mountpoint $point; done",
        "Mount it, take the line out, or add nofail to its options.",
        "systemd.mount(5), nofail",
    ),
    "DG-269": CausePage(
        "A kernel came with an upgrade, and the driver's module was built for the one that runs only: after the reboot"
        " nvidia-smi says that it cannot talk to the driver, and torch sees no GPU.",
        "ls /lib/modules/*/updates/dkms/nvidia.ko* /lib/modules/*/extra/nvidia*; dkms status",
        "dkms autoinstall -k KERNEL, or the precompiled modules that belong to it; nvidia_driver_hold keeps kernels and"
        " driver together.",
        "dkms(8)",
    ),
    "DG-175": CausePage(
        "Ray, a JAX coordinator or an API has a port of its own beside torch's; the first one that is shut is where it"
        " hangs, often without a word (ray#28191).",
        "on a peer: nc -zv NODE PORT; on the node: nft list ruleset | grep PORT",
        "Name the service in fullmesh_services and run site.yml, or open the port to the peers (docs/services.md).",
        FAULTS,
    ),
    "DG-275": CausePage(
        "A program that listens on 127.0.0.1, or on the address of another card, has the port, and no peer can come to"
        " it: host names that lead to loopback, or a default such as localhost, make it so.",
        "on the node: ss -ltnp 'sport = :PORT'",
        "Give the service the cluster address (Ray: --node-ip-address, which fullmesh-ray does), or every address.",
        FAULTS,
    ),
    "DG-201": CausePage(
        "Nothing is known of this node; the others were diagnosed all the same, links to it were not tried.",
        "ansible -i INVENTORY NODE -m ping -vvv",
        "Fix power, network, sshd, key or host key, then run the diagnosis again.",
    ),
    "DG-202": CausePage(
        "ssh works and our module did not run: no Python, no space for it, no right.",
        "ansible -i INVENTORY NODE -m raw -a 'python3 --version; df -h /tmp'",
        "Install Python 3.9 or newer, or set ansible_python_interpreter.",
    ),
    "DG-203": CausePage(
        "The node could be looked at, and its own connections were not tried; those to it were.",
        "ansible -i INVENTORY NODE -m ping",
        "See the message; run the diagnosis again.",
    ),
    "DG-214": CausePage(
        "firewalld has two sets of settings: what runs and what is kept. After a reload or a reboot "
        "the node behaves as what is kept.",
        "firewall-cmd --list-all-zones, --list-all-policies; the same with --permanent",
        "firewall-cmd --reload to go back to what is kept, --runtime-to-permanent to keep what runs.",
        "firewall-cmd(1)",
    ),
    "DG-239": CausePage(
        "A cable or a port that negotiated down makes one node the brake of all.",
        "ethtool INTERFACE",
        "Change the cable, look at the switch port.",
    ),
    "DG-248": CausePage(
        "NCCL's ranks of one node talk through files in /dev/shm: 'failed to extend "
        "/dev/shm/nccl-…'. Containers get 64 MB by default.",
        "df -h /dev/shm",
        "--shm-size or --ipc=host for containers; remount it on a node.",
        "nccl#290",
    ),
    "DG-259": CausePage(
        "Virtual machines that were cloned with their cards, or addresses set by hand. A switch sends"
        " frames to the port where the address was seen last, so connections break by turns.",
        "on every node: ip link show INTERFACE",
        "Give each card an address of its own where the machine is defined.",
        "",
    ),
    "DG-255": CausePage(
        "Rules may pick a routing table by the account (ip rule, uidrange), as VPN clients do. The probe gets through"
        " and a job of that account does not.",
        "ip rule | grep uidrange; as that account: ip route get PEER",
        "Take the rule away, or leave the peers out of it: a rule for them with a smaller number, lookup main.",
        "measured: ip rule uidrange prohibit",
    ),
    "DG-249": CausePage(
        "NCCL uses the ports that are up; with none it falls back to TCP without an error, ten times slower.",
        "ibstat; cat /sys/class/infiniband/*/ports/*/state",
        "Look at the cable, the switch and the subnet manager.",
        "nccl#286",
    ),
    "VC-101": CausePage(
        "torchrun hands out names, and a peer that makes another address of them connects to the wrong place.",
        "getent ahosts NAME on every node",
        APPLY + " network writes the plan's names into /etc/hosts.",
    ),
    "VC-102": CausePage(
        "Gloo without GLOO_SOCKET_IFNAME announces the address of the node's own name. Ubuntu's "
        "installer writes 127.0.1.1 there, which no peer"
        " can reach.",
        "getent ahosts $(hostname)",
        APPLY + " network; by hand: the cluster address and the name in /etc/hosts.",
        FAULTS,
    ),
    "VC-103": CausePage(
        "The c10d rendezvous compares wall clocks and drops a node that is 15 s off: world size 1, "
        "exit code 0, trained alone.",
        "chronyc tracking; date +%s on every node",
        "chronyc makestep; " + APPLY + " tuning.",
        FAULTS,
    ),
    "VC-104": CausePage(
        "Different versions of torch, Python or NCCL give 'message truncated', errors of pickle, or wrong results.",
        "python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'",
        APPLY + " packages.",
        "nccl#1328",
    ),
    "VC-105": CausePage(
        "Each rank holds a socket for every other rank and group. Too few descriptors look like "
        "missing ranks; nothing says 'open files'.",
        "ulimit -n in the job's own environment",
        "nofile in /etc/security/limits.d, LimitNOFILE in units.",
        FAULTS,
    ),
    "VC-106": CausePage(
        "Nothing is plugged in, the switch port is down, or the interface is. NCCL then silently takes the next one.",
        "ip -br link",
        "ip link set INTERFACE up; look at the cable.",
        FAULTS,
    ),
    "VC-107": CausePage(
        "Gloo and NCCL take their ports from the kernel's range. A range that is not the opened one "
        "makes listeners that nobody reaches.",
        "sysctl " + RANGE,
        APPLY + " tuning.",
        FAULTS,
    ),
    "VC-108": CausePage(
        "The kernel gives out no reserved port: 'Cannot assign requested address', also for outgoing connections.",
        "sysctl net.ipv4.ip_local_reserved_ports",
        "Reserve the named ports only; find the file: grep -r reserved_ports /etc/sysctl.d.",
        FAULTS,
    ),
    "VC-109": CausePage(
        "Rank 0 ends with EADDRINUSE, and the others hang when the one who holds the port stays silent.",
        "ss -ltnp 'sport = :29500'",
        "End it, or choose another port for the plan.",
        FAULTS,
    ),
    "VC-110": CausePage(
        "MTUs that differ between hosts alone are harmless; with a path that is narrower than both "
        "ends large packets vanish (VC-208).",
        "ip -br link; ping -M do -s 8972 PEER",
        "One MTU on all nodes and switches.",
        FAULTS,
    ),
    "VC-111": CausePage(
        "A job starts as many ranks as the plan says on every node; a GPU too few ends in `invalid device ordinal`, "
        "another model sets the pace for all.",
        "nvidia-smi -L; lspci -d 10de:",
        "Find the missing card (dmesg | grep NVRM); one driver branch for all nodes: role nvidia_driver.",
    ),
    "VC-112": CausePage(
        "An uncorrectable error ends the process that used the memory; until the row is remapped, at the next reset "
        "of the GPU, it comes back.",
        "nvidia-smi -q -d ECC,ROW_REMAPPER",
        "Reboot the node; replace the card when the errors return.",
        "NVIDIA, GPU Memory Error Management",
    ),
    "VC-113": CausePage(
        "An Xid is the driver's report of a GPU's error, an SXid an NVSwitch's. Some are a program's own fault, some "
        "ask for a reset, some for another card: " + xids.describe_all_xids() + ".",
        "dmesg | grep -i -E 'nvrm|sxid'",
        "What the finding says for its number. A report is named for a quarter of an hour.",
        "NVIDIA, Xid catalog; Fabric Manager User Guide",
    ),
    "VC-114": CausePage(
        "A card that sits badly, or a riser that fails, negotiates fewer lanes; every copy to and from it is slower "
        "and all ranks wait.",
        "nvidia-smi -q -d PCIE; lspci -vv | grep LnkSta",
        "Reseat the card or its riser.",
    ),
    "VC-115": CausePage(
        "Without it the driver is unloaded after each job: the next one waits, counters and settings are lost.",
        "nvidia-smi -q | grep Persistence",
        "systemctl enable --now nvidia-persistenced; role nvidia_driver does it.",
        "NVIDIA, Driver Persistence",
    ),
    "VC-116": CausePage(
        "A kernel, libc, driver, locale or time zone of its own explains a node that is slower, that sorts or "
        "reads files in another order, or whose logs do not fit the others'.",
        "uname -r; ldd --version; ethtool -i IFACE; localectl; timedatectl",
        "One image for all nodes.",
    ),
    "VC-117": CausePage(
        "A GPU driver runs programs that are built for its CUDA or an older one; torch finds no GPU otherwise.",
        "nvidia-smi | grep CUDA; python -c 'import torch; print(torch.version.cuda)'",
        "A newer driver, or torch for an older CUDA: the finding names the torch_runtime_version that has a lock for "
        "it, else a lock of your own (./fullmesh torch-lock) in torch_runtime_requirements.",
    ),
    "VC-118": CausePage(
        "torch's wheels bring an NCCL of their own (pytorch#122571); what nccl-tests measure is the system's.",
        "ldconfig -p | grep nccl; python -c 'import torch; print(torch.cuda.nccl.version())'",
        "nccl_version as torch has it, or know it when you compare figures.",
    ),
    "VC-121": CausePage(
        "Nothing of the cluster can reach a node without its address.",
        "ip -br address",
        APPLY + " network.",
    ),
    "VC-122": CausePage(
        "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME then name the wrong one.",
        "ip -br address",
        APPLY + " network.",
    ),
    "VC-123": CausePage(
        "torchrun announces the host name to the peers.", "hostname", APPLY + " network."
    ),
    "VC-131": CausePage(
        "nvidia-smi fails: the libraries are of another version than the module in the kernel (an update changed them "
        "under it), the module is not loaded, a card fell off the bus, or no card could be started. CUDA fails alike.",
        "nvidia-smi; cat /proc/driver/nvidia/version; dmesg | grep -i nvrm",
        "Reboot after an update; a module that is not there: Secure Boot, DKMS, nouveau; a card that is gone: Xid 79. "
        "Role nvidia_driver holds driver and libraries together.",
        "NVML API reference, nvmlReturn_t",
    ),
    "VC-132": CausePage(
        "A card on the PCI bus that the driver could not start, or that fell off the bus: the ranks of that node that "
        "count on it fail with `invalid device ordinal`.",
        "lspci -d 10de:; nvidia-smi -L; dmesg | grep -i -E 'nvrm|xid'",
        "Switch the machine off and on; look at the card's power and seat; replace it.",
    ),
    "VC-133": CausePage(
        "A GPU replaces rows of memory that break by spare ones, as long as there are any. Where that failed (Xid 64) "
        "it goes on with broken memory, and jobs end with errors that ECC cannot fix.",
        "nvidia-smi -q -d ROW_REMAPPER",
        "Leave the GPU out of jobs and have the card replaced.",
        "NVIDIA, GPU Memory Error Management",
    ),
    "VC-134": CausePage(
        "Broken rows of a GPU's memory are replaced at its next reset; until then it works around them.",
        "nvidia-smi -q -d ROW_REMAPPER",
        "nvidia-smi --gpu-reset without any program on the GPUs, or a reboot.",
        "NVIDIA, GPU Memory Error Management",
    ),
    "VC-135": CausePage(
        "NCCL finds the way between GPUs once, by what is up: links that are down make rings slower, or lead them "
        "through PCIe and the processor.",
        "nvidia-smi nvlink -s; nvidia-smi nvlink -e; NCCL_DEBUG=INFO shows the channels",
        "Reboot; then the baseboard or the bridge is what is broken.",
    ),
    "VC-136": CausePage(
        "On machines with NVSwitch the fabric manager sets the switches up before CUDA can start; without it, or with "
        "one of another version than the driver, every CUDA program fails with error 802, system not yet initialized.",
        "nvidia-smi -q | grep -A2 Fabric; systemctl status nvidia-fabricmanager",
        "systemctl enable --now nvidia-fabricmanager, of exactly the driver's version: role nvidia_driver.",
        "NVIDIA, Fabric Manager User Guide",
    ),
    "VC-137": CausePage(
        "Heat, the power supply's brake or the board itself hold a GPU's clocks down. A collective waits for the "
        "slowest rank, so one such card sets the pace of the whole job.",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
        "Fans, air flow, power cables and supplies of that machine.",
        "NVML API reference, nvmlClocksEventReasons",
    ),
    "VC-138": CausePage(
        "Compute mode Prohibited lets no program make a CUDA context: `CUDA-capable device(s) is/are busy or "
        "unavailable`.",
        "nvidia-smi -q -d COMPUTE",
        "nvidia-smi --compute-mode=DEFAULT",
    ),
    "VC-139": CausePage(
        "With MIG a process sees one slice of one GPU, and slices have no direct way to each other: neither NVLink "
        "nor PCIe peer-to-peer.",
        "nvidia-smi -L",
        "nvidia-smi --multi-instance-gpu=0 for nodes that train over several GPUs; MIG is for small jobs side by side.",
        "NVIDIA, Multi-Instance GPU User Guide",
    ),
    "VC-140": CausePage(
        "A program that was left behind, or another user's, holds memory: the next job ends with CUDA out of memory.",
        "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; fuser -v /dev/nvidia*",
        "End it. Where several people share the machine, let a scheduler hand out the GPUs.",
    ),
    "VC-141": CausePage(
        "ACS (access control services) of PCIe switches sends requests between two devices below them up to the root "
        "and down again. GPUs and RDMA cards that could talk in their switch then share the way to the processor; with "
        "an IOMMU that translates, peer-to-peer may hang as well.",
        "lspci -vvv | grep ACSCtl (ReqRedir+ and CmpltRedir+); nvidia-smi topo -m",
        "ACS off in the firmware, or setpci -s BRIDGE ECAP_ACS+0x6.w=0000 after each boot. Leave it on where virtual "
        "machines are given devices.",
        "NCCL documentation, Troubleshooting, PCI Access Control Services",
    ),
    "VC-142": CausePage(
        "An IOMMU that translates stands between GPUs, and between GPUs and RDMA cards.",
        "cat /sys/bus/pci/devices/GPU/iommu_group/type; dmesg | grep -i -E 'iommu|dmar'",
        "iommu.passthrough=1 (x86: iommu=pt) on the kernel's command line passes the machine's own devices through.",
        "NCCL documentation, Troubleshooting; kernel-parameters, iommu.passthrough=",
    ),
    "VC-143": CausePage(
        "Without GPUDirect RDMA each message is copied through the host's memory: NCCL prints GDR 0, and bandwidth is "
        "a fraction of the link's.",
        "NCCL_DEBUG=INFO shows `GPU Direct RDMA Disabled`; cat /proc/driver/nvidia/version; lsmod | grep peermem",
        "The open modules of NVIDIA's driver with Linux 5.12 or newer (dma_buf): nvidia_driver_open: true. "
        "nvidia_peermem is for older ones.",
        "NVIDIA, GPUDirect RDMA; NCCL documentation, Troubleshooting",
    ),
    "VC-144": CausePage(
        "NCCL works algorithm, protocol and channels out of the machine that it finds. A value from somebody's recipe "
        "keeps it from doing so, for every job and every size.",
        "env | grep NCCL_; NCCL_DEBUG=INFO prints what environment set",
        "Take it out; keep it only where a measurement on these nodes says so.",
        "NCCL documentation, Environment Variables: debug and tuning ones are not for production",
    ),
    "VC-145": CausePage(
        "A bridge between cards is a part of its own, and one that is missing or loose is no error to the driver: the "
        "cards have no NVLink there, and NCCL goes over PCIe. The other nodes show how many there should be.",
        "nvidia-smi nvlink -s; nvidia-smi topo -m (NV4 between two cards with a bridge, PHB or SYS without)",
        "Put the bridge on, or reseat it, with the machine switched off.",
        "NVIDIA, nvidia-smi documentation, topo and nvlink",
    ),
    "VC-146": CausePage(
        "A board with two processors has slots of each. Where GPUs and RDMA cards share no processor every message "
        "crosses the way between the two, and GPUDirect RDMA is slow there or not used at all.",
        "nvidia-smi topo -m (SYS between GPU and NIC); cat /sys/bus/pci/devices/*/numa_node",
        "Move the card to a slot of the GPUs' processor.",
        "NCCL documentation, Environment Variables, NCCL_NET_GDR_LEVEL",
    ),
    "VC-148": CausePage(
        "The GID table of a RoCE port follows the addresses of its interface, so the entry of the IPv4 address moves: "
        "after a reboot, with one more address, or on another port. A fixed index then points to an empty entry, to "
        "fe80:: or to RoCE v1. NCCL ends with `ibv_modify_qp failed with 61 No data available`, or hangs. Text that is "
        "no number counts as 0.",
        "show_gids; env | grep NCCL_IB; cat /etc/nccl.conf",
        "Remove NCCL_IB_GID_INDEX: NCCL 2.21 and newer choose the entry of each port. On an IPv6 network set "
        "NCCL_IB_ADDR_FAMILY=AF_INET6.",
        "NCCL 2.30, net_ib/connect.cc and misc/param.cc; nccl#1333",
    ),
    "VC-147": CausePage(
        "The fabric manager is a program that sets NVSwitches up when the driver starts, and takes no other version's "
        "driver. Links that are up stay so without it; after a reset of a GPU or a boot they do not come up, and every "
        "CUDA program fails with error 802. An upgrade of one of the two without the other is how it happens.",
        "systemctl status nvidia-fabricmanager; nv-fabricmanager --version; nvidia-smi",
        "The driver's own version of it, and both held together: role nvidia_driver.",
        "NVIDIA, Fabric Manager User Guide",
    ),
    "VC-201": CausePage(
        "Silence: the kernel sent a SYN, and again, and nothing came back. Gloo waits 539 s on one "
        "side and hours on the other; the"
        " message stands on the node that is not to blame.",
        "nft list ruleset on the node that is named; nc -zv PEER PORT",
        "Open the ports to the peers on the node that is named: " + APPLY + " firewall.",
        FAULTS,
    ),
    "VC-202": CausePage(
        "An ICMP answer says prohibited, which connect() shows as 'No route to host' although the "
        "route is fine: firewalld's own way to refuse.",
        "ip neigh show PEER (REACHABLE means: it is a firewall)",
        APPLY + " firewall.",
        FAULTS,
    ),
    "VC-203": CausePage(
        "A reset came back although our listener was there: a firewall that answers with resets.",
        "nft list ruleset | grep 'tcp reset'",
        APPLY + " firewall.",
        FAULTS,
    ),
    "VC-204": CausePage(
        "The kernel has no route, or nobody answers ARP at the next hop.",
        "ip route get PEER; ip neigh show PEER",
        "Fix the route or the address; is the other node up?",
        FAULTS,
    ),
    "VC-205": CausePage(
        "Connections are made and then cut: a middlebox, an intrusion filter, a proxy with a short temper.",
        "tcpdump -ni INTERFACE 'tcp[tcpflags] & tcp-rst != 0'",
        "Find what stands between the nodes.",
    ),
    "VC-206": CausePage(
        "The route chooses another source address than the cluster's, so firewalls that know the "
        "peers do not know this one.",
        "ip route get PEER",
        "Give the route its source, or the interface its address: " + APPLY + " network.",
    ),
    "VC-207": CausePage(
        "What answers does not know this run's secret: another machine with the address, a proxy, an old listener.",
        "ip neigh show PEER; ss -ltnp on the peer",
        "See DG-140; end what sits on the port.",
    ),
    "VC-208": CausePage(
        "Init and small collectives pass, the first large one hangs: 'Timed out waiting for recv'. "
        "The ends believe in a larger MTU than the path"
        " has, and the ICMP answers that would say so are filtered.",
        "ping -M do -s 1472 PEER; ip -br link",
        "One MTU at both ends and on all switches; let ICMP 'fragmentation needed' through.",
        FAULTS,
    ),
    "VC-209": CausePage(
        "The link is open, the node was busy.",
        "uptime on the node",
        "Run it again when the node is less busy.",
    ),
    "VC-210": CausePage(
        "A firewall that is wider than the plan.",
        "firewall-cmd --list-all-zones",
        APPLY + " firewall.",
    ),
    "VC-211": CausePage(
        "Who reaches the store can read and write its keys: pickled objects among them.",
        "nc -zv NODE 29500",
        APPLY + " firewall.",
    ),
    "VC-212": CausePage(
        "The pin does not work for new sockets.", "sysctl " + RANGE, APPLY + " tuning."
    ),
    "VC-213": CausePage(
        "The kernel had no port to give, or the address is not there.",
        "ss -tan | wc -l; sysctl " + RANGE,
        "See DG-110 and VC-108.",
    ),
    "VC-301": CausePage(
        "A rank could not use the store.",
        "the rank's last words in result.json",
        "See the links of this rank's node.",
    ),
    "VC-302": CausePage(
        "The interpreter of the jobs has no torch.",
        "VENV/bin/python -c 'import torch'",
        APPLY + " packages.",
    ),
    "VC-303": CausePage(
        "A rank ended before it was done.",
        "journalctl -k --since -10min",
        "See its last words in result.json.",
    ),
    "VC-304": CausePage("A rank was never started.", "df -h /run; ps aux", "See the message."),
    "VC-305": CausePage(
        "The ranks run as an account without rights: a container without those numbers, or a Python only for root.",
        "cat /proc/self/uid_map; namei -l /opt/fullmesh/venv/bin/python",
        "Map 61184 to 65519 into the container; open the folders of the interpreter to all (chmod o+rx).",
    ),
    "VC-306": CausePage(
        "The ranks of the check did not get through in time, while far more wanted to run than the node has "
        "processors, the machine's owner gave them to others (steal), or a control group's limit stopped them "
        "(throttled). The check's deadlines grow with its ranks and with the load that it sees before; what began "
        "afterwards it cannot know. It says nothing about the network.",
        "uptime; top (st); nr_throttled in cpu.stat below /sys/fs/cgroup",
        "Run the check again when less runs there, or give it more time: the message has the command.",
    ),
    "VC-307": CausePage(
        "Modules and rules are of one version and agree on every field; a module of another version answered.",
        "ansible-config dump | grep -E 'MODULE_(PATH|UTILS_PATH)'",
        "Take the other one out of the path, or run from a clean checkout.",
    ),
    "VC-308": CausePage(
        "What a rank had left in torch's store was another value when it was read: a program of somebody else's, on a "
        "node or on a peer, writes there. torch's store asks nobody for a password. No rank runs what it finds there.",
        "ss -tnp 'dport = :29500', on every node while it runs",
        "End that program; while it runs, jobs of torch's fail or wait in the same way.",
    ),
    "VC-309": CausePage(
        "The controller heard nothing from the node for 10 s, or ssh lost the connection. The node ends its ranks by "
        "itself 3.5 s after it last heard the controller; Fullmesh stops the ranks on all other nodes.",
        "journalctl -u ssh -u sshd; ip -s link",
        "Repair the management connection of the node, then verify again.",
    ),
    "VC-310": CausePage(
        "The ranks run as an account without rights, as jobs of ordinary users do. It may not read `/etc/fullmesh/env` "
        "or a file of the virtual environment.",
        "namei -l /etc/fullmesh/env",
        "Open the folder or file that the message names (chmod o+rX).",
    ),
    "VC-311": CausePage(
        "Python found torch, and the dynamic linker found no library of that name, or one that lacks a symbol.",
        "ldd VENV/lib/python3*/site-packages/torch/lib/libtorch.so | grep 'not found'",
        APPLY + " packages.",
    ),
    "VC-312": CausePage(
        "A value in the file that jobs take their environment from has a quotation mark too few. The message names the "
        "variable.",
        "cat -A /etc/fullmesh/env",
        "Correct the line.",
    ),
    "VC-401": CausePage(
        "Ranks met at the store and not each other.",
        "./fullmesh diagnose -i INVENTORY",
        "See the links.",
    ),
    "VC-402": CausePage(
        "A sum was wrong: memory, a version, a NIC.", "memtester; edac-util", "Take the node out."
    ),
    "VC-403": CausePage(
        "A collective did not end.", "./fullmesh diagnose -i INVENTORY", "See VC-208 and DG-138."
    ),
    "VC-501": CausePage(
        "A listener outside the opened range.", "sysctl " + RANGE, APPLY + " tuning."
    ),
    "VC-502": CausePage(
        "Gloo listened on an address that peers cannot reach.",
        "env | grep GLOO_SOCKET_IFNAME",
        APPLY + " launch.",
    ),
    "VC-601": CausePage("NCCL chose another interface.", "NCCL_DEBUG=INFO", APPLY + " launch."),
    "VC-602": CausePage(
        "NCCL's listener is outside the opened range.", "sysctl " + RANGE, APPLY + " tuning."
    ),
    "VC-603": CausePage(
        "NCCL found no interface or could not listen.", "NCCL_DEBUG=INFO", APPLY + " launch."
    ),
    "VC-604": CausePage(
        "NCCL is there on some nodes only.", "ldconfig -p | grep nccl", APPLY + " packages."
    ),
    "VC-701": CausePage(
        "A setting of the role.", "roles/verify_cluster/README.md", "See the message."
    ),
    "VC-702": CausePage(
        "A setting of the role.", "roles/verify_cluster/README.md", "See the message."
    ),
    "VC-780": CausePage(
        "A setting of the role.", "roles/verify_cluster/README.md", "See the message."
    ),
    "VC-711": CausePage(
        "A rank without a GPU of its own shares one with another rank, which NCCL refuses, or trains on the CPU.",
        "nvidia-smi -L; grep LOCAL /etc/fullmesh/env",
        "fullmesh_local_ranks as many as GPUs, or find the missing card.",
    ),
    "VC-712": CausePage(
        "NCCL's own connections (sockets on ports of the kernel, or RDMA) did not all come up.",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET",
        "./fullmesh diagnose -i INVENTORY; then the NIC that NCCL names.",
    ),
    "VC-713": CausePage(
        "A sum over all GPUs was wrong: memory, a PCIe switch with ACS on, an IOMMU in the way of peer-to-peer.",
        "NCCL_P2P_DISABLE=1, then the same again",
        "IOMMU off or passthrough, ACS off; take the node out when it stays.",
        "NVIDIA, NCCL troubleshooting",
    ),
    "VC-714": CausePage(
        "NCCL took a slower way than there is: a NIC far from the GPU, one of several NICs. TCP beside RDMA is VC-720.",
        "NCCL_DEBUG=INFO (`via NET/…`); nvidia-smi topo -m",
        "NCCL_SOCKET_IFNAME and NCCL_IB_HCA as role cluster_env writes them; for GPUDirect RDMA see VC-143.",
        "nccl-tests, PERFORMANCE.md",
    ),
    "VC-715": CausePage(
        "nccl-tests ran on one node only, so this is between the GPUs of that node.",
        "all_reduce_perf -b 8 -e 128M -f 2 -g GPUS",
        "As for VC-713.",
    ),
    "VC-716": CausePage(
        "NVLink down, fabric manager not started, or copies over PCIe make one node slower than its like.",
        "nvidia-smi nvlink -s; nvidia-smi topo -m",
        "systemctl enable --now nvidia-fabricmanager where there is NVSwitch.",
    ),
    "VC-717": CausePage(
        "torch's build for CPUs, the default of role torch_runtime, trains on a node with GPUs, without a word and "
        "without the GPUs. The PCI bus is looked at too, so GPUs without a driver count.",
        "lspci -d 10de:; /opt/fullmesh/venv/bin/python -c 'import torch; print(torch.version.cuda)'",
        "torch_runtime_accelerator: cuda in the inventory. " + APPLY + " packages.",
    ),
    "VC-718": CausePage(
        "A job starts fullmesh_local_ranks ranks on each node and every rank takes the GPU of its number: too few "
        "leave GPUs idle, too many get none. A GPU under MIG is several devices and is not counted.",
        "nvidia-smi -L; grep -r LOCAL_WORLD_SIZE /etc/fullmesh/env",
        "fullmesh_local_ranks as many as GPUs; where jobs shall leave some alone, name the others in "
        "CUDA_VISIBLE_DEVICES (cluster_env_extra).",
    ),
    "VC-719": CausePage(
        "GPUs are on the bus or held by the driver, torch is built for GPUs, and no rank sees one: no driver, one "
        "that fails or is too old for this torch, or a container without the device files.",
        "nvidia-smi; ls -l /dev/nvidia*; python -c 'import torch; print(torch.cuda.is_available())'",
        "Role nvidia_driver brings a driver; a reboot where nouveau held the GPUs; the devices into the container.",
    ),
    "VC-720": CausePage(
        "NCCL looks on each node for RDMA by itself and takes TCP where it finds none that it may use, without a word "
        "at its usual level. The job runs, only slower; how much depends on the network, so this is named whatever was "
        "measured.",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV: `Using network Socket`, and before it why; ibv_devinfo as the "
        "account of the job; grep NCCL_ /etc/nccl.conf /etc/fullmesh/env",
        "What the finding names: a variable, a file that only root may open, a module or a library that is missing.",
        "NVIDIA/nccl, src/plugin/net.cc, src/misc/ibvsymbols.cc",
    ),
    "VC-721": CausePage(
        "NCCL speaks one kind of network in a job, and no node asks the others what they took: one with InfiniBand and "
        "one with TCP wait for each other for ever. What each took is said before they begin to wait.",
        "NCCL_DEBUG=INFO on every node, grep 'Using network'",
        "Repair the node that lacks it (VC-720 has the ways), or NCCL_NET=Socket on all.",
        "NVIDIA/nccl issues 234 and 878",
    ),
    "VC-722": CausePage(
        "Large messages between GPUs of one node go over PCIe or the host's memory although NVLinks lead from every "
        "GPU to every other. A fifth of what the NVLinks carry in one direction is asked for: PCIe has a tenth of it, "
        "healthy machines reach three quarters with large messages.",
        "all_reduce_perf -b 64M -e 1G -f 2 -g GPUS; NCCL_DEBUG=INFO (`via P2P`, not `via SHM`); nvidia-smi topo -p2p n",
        "NCCL_P2P_DISABLE and NCCL_P2P_LEVEL unset; fabric manager running (VC-136); containers with all GPUs in one "
        "namespace; peer-to-peer allowed by the hypervisor.",
        "NVIDIA/nccl-tests issues 149 and 212",
    ),
    "VC-723": CausePage(
        "The kernel lets RDMA cards reach the GPUs' memory and NCCL does not use it: every byte goes through the "
        "host's memory, twice. By itself NCCL does so only where a PCIe switch is common to both.",
        "NCCL_DEBUG=INFO: `via NET/IB/0` without `/GDRDMA`, `GPU Direct RDMA Disabled for HCA`; nvidia-smi topo -m",
        "NCCL_NET_GDR_LEVEL unset; nvidia_peermem built against the RDMA driver in use, or dma_buf (VC-143); the card "
        "in a slot beside the GPUs.",
        "NVIDIA, NCCL documentation, NCCL_NET_GDR_LEVEL; NVIDIA/nccl issue 1537",
    ),
    "VC-724": CausePage(
        "A rank raised an error of its own while it took its GPU, before any GPU was connected with another.",
        "nvidia-smi; VENV/bin/python -c 'import torch; torch.cuda.init()'",
        "See the exception in the message: it names the file and the line.",
    ),
    "VC-801": CausePage(
        "DDP copies rank 0's parameters at the start; ranks that begin with others, or with another order of the "
        "data, have other files or another torch.",
        "sha256sum of the job's files on every node",
        "The same files and versions everywhere.",
    ),
    "VC-802": CausePage(
        "DistributedSampler deals the samples out by rank and world size; ranks that disagree on these see a sample "
        "twice and others never.",
        "print rank and world size in the job",
        "RANK and WORLD_SIZE from /etc/fullmesh/env, by a launcher of ours.",
    ),
    "VC-803": CausePage(
        "After every step DDP's ranks have equal parameters; ranks that drift apart train several models.",
        "all_gather of a checksum of the parameters",
        "Look for gradients that are not reduced (no_sync, unused parameters) and versions that differ.",
    ),
    "VC-804": CausePage(
        "All ranks together compute what one process does with the whole batch; another loss is a wrong sum.",
        "The job alone in one process",
        "As for VC-402.",
    ),
    "VC-805": CausePage(
        "Autocast or the gradient scaler does not do what it says on this hardware.",
        "torch.cuda.is_bf16_supported()",
        "The other reduced type, or full precision.",
    ),
    "VC-806": CausePage(
        "A collective of a subgroup (new_group) reached ranks outside it, or lost some inside.",
        "dist.get_process_group_ranks(group)",
        "All ranks have to make all groups, in one order.",
        "torch.distributed, new_group",
    ),
    "VC-807": CausePage(
        "FSDP keeps a share of every parameter on each rank; a rank with all of them runs out of memory later.",
        "Sizes of the local shards",
        "The same torch everywhere; a mesh over all ranks.",
    ),
    "VC-808": CausePage(
        "A training step ended with an error, or did not end.",
        "The rank's traceback in the finding",
        "./fullmesh diagnose -i INVENTORY; then the message.",
    ),
    "VC-880": CausePage(
        "Every group of nodes with this one reaches less than half of what the others do, whoever else is in it. A"
        " collective is as slow as its slowest member, so one such node slows the whole job.",
        "./fullmesh diagnose -i INVENTORY --bandwidth; iperf3 to it and from it",
        "Its card (speed, duplex, errors, a queue with a rate), its cable, its processors; till then leave it out.",
        "docs/bisect.md",
    ),
    "VC-881": CausePage(
        "Every group of nodes with this one gets a wrong sum or copy, the others never do. torch raises nothing: the"
        " job trains on wrong numbers. Run it again: a fault of memory comes and goes, one of software does not.",
        "./fullmesh verify --bisect",
        "The same torch and Gloo as everywhere; its memory and processor tested; until then leave it out of jobs.",
        "docs/bisect.md",
    ),
    "VC-882": CausePage(
        "Every group of nodes with this one fails or does not come to an end, the others do.",
        "The message of its rank, in bisect of the result",
        "./fullmesh diagnose -i INVENTORY; then the message.",
        "docs/bisect.md",
    ),
    "VC-883": CausePage(
        "Each of the two nodes is well in the company of others. What they have for themselves is the way between them,"
        " or a pair of settings that do not go together.",
        "./fullmesh diagnose -i INVENTORY --bandwidth --limit NODE,OTHER,localhost",
        "The cables, the trunk or the switch between the two; their versions and MTUs.",
        "docs/bisect.md",
    ),
    "VC-884": CausePage(
        "Runs of groups leave more than one explanation: of two nodes none can be told from the other, since there is"
        " no third to run with; of several that are bad only together the runs may not suffice.",
        "The runs, in bisect of the result",
        "Again with a node more, or ./fullmesh diagnose --bandwidth, which measures every pair.",
        "docs/bisect.md",
    ),
    "VC-885": CausePage(
        "No node that is always bad, nor any two, would give what the runs gave: three faults at once, or one that"
        " comes and goes.",
        "The runs, in bisect of the result; once more, and compare",
        "./fullmesh diagnose -i INVENTORY --bandwidth; the nodes that were in no good group first.",
        "docs/bisect.md",
    ),
}


def list_test_cases(code: str) -> list[str]:
    """How the tests make it."""
    return [case.how for case in catalogue.index_cases().values() if case.code == code]


def render_code_section(code: str, meaning: str) -> list[str]:
    """One code, as lines of Markdown."""
    page = PAGES[code]
    lines = [
        f"## {code}: {meaning}",
        "",
        page.why,
        "",
        f"**Prove it:** `{page.prove}`",
        "",
        f"**Fix it:** {page.fix}",
    ]
    made = list_test_cases(code)
    if made:
        lines += ["", f"**How the tests make it:** {'; or '.join(made)}."]
    if page.source:
        lines += ["", f"**Source:** {page.source}."]
    return lines


def index_code_meanings() -> dict[str, str]:
    """Every code that has a page, with its meaning."""
    from fullmesh.verify import ladder  # noqa: PLC0415 (verify's types name this page; imported when it is written)

    return {**ladder.CODES, **CODES}


def render_causes_page() -> str:
    """Return docs/causes/diagnose.md of the site."""
    lines = [
        "# Causes that ./fullmesh diagnose and ./fullmesh verify name",
        "",
        "`./fullmesh explain CODE` prints a section. Words in CAPITALS stand for names of yours.",
    ]
    for code, meaning in sorted(index_code_meanings().items()):
        lines += ["", f'<a id="{code.lower()}"></a>', "", *render_code_section(code, meaning)]
    return "\n".join(lines) + "\n"


def explain_cause_code(code: str, meaning: str) -> str:
    """A section for the terminal."""
    more = "docs/diagnose.md" if code in CODES else "roles/verify_cluster/README.md"
    lines = [*render_code_section(code, meaning), "", f"More: {more}"]
    return "\n".join(lines).replace("**", "").removeprefix("## ") + "\n"
