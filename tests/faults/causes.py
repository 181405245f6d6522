"""Every way in which the harness breaks a node: one entry each, what it does, what undoes it, what must be said.

The scripts are ``sh -eu``. They know ``$LAB``, ``$VICTIM $PEER`` (inventory names), ``$V_ADDR $P_ADDR`` (cluster
addresses), ``$V_HOST $P_HOST`` (host names), ``$V_MGMT $P_MGMT``, ``$V_CABLE $P_CABLE`` (this machine's ends of their
cluster cables), ``$V_PID`` (the victim's first process), ``$BRIDGE`` and ``$INDEX`` (of the lab's cluster network),
``$NFT`` (nft in this machine's network), ``$FIRST $MIDDLE $LAST`` (the range from which jobs take ports), ``$SILENT``
(an address that never answers).

One file, though long: it is one table.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from devtools.lab import paths
from fullmesh.settings import ROOT

VICTIM, PEER, ALL, OUTSIDE = "victim", "peer", "all", "outside"
TUNED, BARE = "tuned", "bare"  # configured by site.yml; only addresses, set by hand
MASTER, WORKER = "master", "worker"
TO_VICTIM, FROM_VICTIM = "{peer} -> {victim}", "{victim} -> {peer}"
LINK_IN = {"peer": "{peer}", "direction": TO_VICTIM}
LINK_OUT = {"peer": "{peer}", "direction": FROM_VICTIM}
WHOLE = "{first}-{last}/tcp"


# Limits and variables are given at login, and Ansible keeps its logins open.
NEW_LOGIN = "pkill -f '^sshd: root' || true"


@dataclass(frozen=True)
class Step:
    """One change and what takes it back."""

    at: str
    do: str
    undo: str


@dataclass(frozen=True)
class Fault:
    """A cause, made.

    Attributes:
        case: its name among the cases of the causes, which say the code.
        lab: where it is made.
        steps: undone in reverse order.
        variant: tells two faults of one case apart.
        victim: the master's node or the other one.
        code: when it is not the cause's.
        severity: when it is not the cause's.
        expect: fields of the primary finding, with names filled in; ``port`` must be contained in what is said.
        variables: what the inventory says of the victim besides; of both nodes, where it is a cluster's setting.
        deadline: seconds for the diagnosis, when the default is not meant.
    """

    case: str
    lab: str
    steps: tuple[Step, ...]
    variant: str = ""
    victim: str = WORKER
    code: str = ""
    severity: str = ""
    expect: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    deadline: float = 0.0

    @property
    def name(self) -> str:
        """How tests and the table call it."""
        return "-".join(word for word in (self.case, self.variant) if word)


def at(where: str, do: str, undo: str) -> tuple[Step, ...]:
    """One step."""
    return (Step(where, do, undo),)


def chain(rules: str, hook: str = "input", policy: str = "accept") -> str:
    """A table of nftables with one chain; ``rules`` are separated by semicolons."""
    head = f"type filter hook {hook} priority 0; policy {policy};"
    return (
        f"nft 'add table inet fault; add chain inet fault {hook} {{ {head} }}' && "
        + " && ".join(
            f'nft "add rule inet fault {hook} {rule.strip()}"' for rule in rules.split(";")
        )
    )


def wall(rules: str, hook: str = "input", policy: str = "accept") -> tuple[Step, ...]:
    """A firewall on the victim."""
    return at(VICTIM, chain(rules, hook, policy), "nft delete table inet fault")


# The policy that lets the peers in, and its rule for the range.
JOB = "firewall-cmd -q --policy=fullmesh-job"
DATA = '"rule family=ipv4 source ipset=fullmesh-peers4 port port=$FIRST-$LAST protocol=tcp accept"'


def both(change: str) -> str:
    """A change of that policy, in force and kept."""
    return f"{JOB} {change}\n{JOB} --permanent {change}"


def on_the_way(rule: str, *cables: str) -> tuple[Step, ...]:
    """Something between the nodes: a rule where a node's packets come out of its cable on this machine's side."""
    do, undo = [], []
    for number, cable in enumerate(cables):
        table = f"netdev fault_${{INDEX}}_{number}"
        head = f"type filter hook ingress device ${cable} priority 0;"
        do += [
            f'$NFT "add table {table}; add chain {table} way {{ {head} }}"',
            f'$NFT "add rule {table} way {rule}"',
        ]
        undo.append(f"$NFT delete table {table}")
    return at(OUTSIDE, "\n".join(do), "\n".join(undo))


def sysctl(setting: str, where: str = VICTIM) -> tuple[Step, ...]:
    """A kernel setting, and its old value back."""
    key, value = setting.split("=", 1)
    path = "/proc/sys/" + key.replace(".", "/")
    keep = f"/run/fault.{key}"
    return at(
        where, f"cat {path} > {keep}; echo {value} > {path}", f"cat {keep} > {path}; rm {keep}"
    )


def edited(path: str, edit: str, where: str = VICTIM, after: str = "true") -> tuple[Step, ...]:
    """A changed file; its bytes come back. /etc/hosts is a mount in a container, so nothing is renamed."""
    keep = f"/run/fault{path.replace('/', '_')}"
    do = f"[ -e {path} ] && cat {path} > {keep}; touch {path}; {edit}"
    undo = f"if [ -e {keep} ]; then cat {keep} > {path}; rm {keep}; else rm {path}; fi; {after}"
    return at(where, do, undo)


def job_variable(setting: str, where: str = VICTIM) -> tuple[Step, ...]:
    """A variable of the job's environment on a configured node."""
    name = setting.split("=", 1)[0]
    text = f"sed '/^{name}=/d' /run/fault_etc_fullmesh_env > /etc/fullmesh/env; echo \"{setting}\" >> /etc/fullmesh/env"
    return edited("/etc/fullmesh/env", text, where)


def variable(setting: str, where: str = VICTIM) -> tuple[Step, ...]:
    """A variable of the job's environment on a node that nobody configured; a login keeps what it began with."""
    change = f'echo "{setting}" >> /etc/environment; {NEW_LOGIN}'
    return edited("/etc/environment", change, where, after=NEW_LOGIN)


def hosts(edit: str, where: str = VICTIM) -> tuple[Step, ...]:
    """A changed /etc/hosts: ``edit`` prints the new text, the old one is ``$OLD``."""
    return edited(
        "/etc/hosts",
        f"OLD=/run/fault_etc_hosts; {{ {edit}; }} > /run/fault.new; cat /run/fault.new > /etc/hosts; rm /run/fault.new",
        where,
    )


def service(command: str, where: str = VICTIM) -> tuple[Step, ...]:
    """A process that stays until it is stopped; the script waits until it says ``ready``."""
    return at(
        where,
        "systemctl reset-failed fault.service 2>/dev/null || true\n"
        "rm -f /run/fault.ready\n"
        f"systemd-run --quiet --unit=fault --property=PrivateTmp=no {command}\n"
        "for _ in $(seq 1500); do [ -e /run/fault.ready ] && exit 0; sleep 0.05; done; exit 1",
        "systemctl stop fault.service || true; rm -f /run/fault.ready",
    )


def python(code: str, *words: str) -> str:
    """A Python program as the command of a service."""
    lines = [
        "import socket, time",
        *code.strip().splitlines(),
        "open('/run/fault.ready', 'w').close()",
        "time.sleep(900)",
    ]
    joined = "\n".join(lines).replace('"', '\\"')
    return f'python3 -c "{joined}" {" ".join(words)}'


# Of a security group, which lets answers through.
NEW = "tcp flags & (syn | ack) == syn "
LISTEN = "s = socket.create_server(('0.0.0.0', 29500))"
# A connection that the diagnosis before opened may lie on one of these ports for a minute still (TIME_WAIT, tcp(7)),
# and SO_REUSEADDR does not help: the kernel asks both sockets for it, and the one of a connect() had none.
FILL = """
held = []
for port in range(50000, 50064):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    while True:
        try:
            s.bind(('$V_ADDR', port)); break
        except OSError:
            time.sleep(0.2)
    s.listen(); held.append(s)
"""
# A card does not split what the program hands over: without this a large packet never leaves as one (faults.md 37).
NO_OFFLOAD = """
python3 -c "
import array, fcntl, socket, struct
s = socket.socket()
for command in (0x1f, 0x24):
    held = array.array('B', struct.pack('II', command, {on}))
    fcntl.ioctl(s, 0x8946, struct.pack('16sP', b'eth1', held.buffer_info()[0]))
"
"""
DISTINFO = "/opt/fullmesh/venv/lib/python3.*/site-packages/torch-*.dist-info/METADATA"

# The network of a container, as docker's bridge makes it: behind the node's own address. The range is the node's.
NAT = """
pid=$(pgrep -f '^torchrun 900' | head -1)
ip link add fault0 type veth peer name eth0 netns $pid
ip addr add 172.31.7.1/24 dev fault0; ip link set fault0 up
nsenter -t $pid -n sh -c 'ip addr add 172.31.7.2/24 dev eth0; ip link set eth0 up; ip link set lo up
  ip route add default via 172.31.7.1'
nft 'add table inet fault; add chain inet fault nat { type nat hook postrouting priority 100; }'
nft 'add rule inet fault nat ip saddr 172.31.7.0/24 oifname eth1 masquerade'
"""
OF_TWO = (
    "WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$P_ADDR bash -c"
    " 'touch /run/fault.ready; exec -a torchrun sleep 900'"
)
# From outside: a container may not load programs into the machine's kernel.
XDP = f"nsenter -t $V_PID -n -- python3 {ROOT}/tests/support/xdp_drop.py eth1"

SECOND_RULE = "on {victim}: nft delete rule inet fault input handle 3"
WALLS = (
    # Which of them it is, no paper says: the node's kernel does.
    Fault(
        "decoy",
        BARE,
        wall(
            "iifname eth1 tcp dport $FIRST-$LAST @nh,64,8 1 drop; "
            "iifname eth1 tcp dport $FIRST-$LAST @nh,64,8 > 1 counter drop"
        ),
        expect={**LINK_IN, "port": WHOLE, "fix": SECOND_RULE},
    ),
    Fault(
        "range-drop",
        BARE,
        wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "range-drop",
        BARE,
        wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        "master",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "range-half",
        BARE,
        wall("iifname eth1 tcp dport $MIDDLE-$LAST drop"),
        expect={**LINK_IN, "port": "{last}"},
    ),
    Fault(
        "output-drop",
        BARE,
        wall("oifname eth1 tcp dport $FIRST-$LAST drop", "output"),
        expect={**LINK_OUT, "port": WHOLE},
    ),
    Fault(
        "range-reject",
        BARE,
        wall("iifname eth1 tcp dport $FIRST-$LAST reject with icmpx type admin-prohibited"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "range-reset",
        BARE,
        wall("iifname eth1 tcp dport $FIRST-$LAST reject with tcp reset"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "one-way",
        BARE,
        wall("ip saddr $P_ADDR tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "store-drop",
        BARE,
        wall("iifname eth1 tcp dport { 29400, 29500 } drop"),
        "both",
        MASTER,
        expect={**LINK_IN, "port": "29500"},
    ),
    Fault(
        "store-drop",
        BARE,
        wall("iifname eth1 tcp dport 29500 drop"),
        "store",
        MASTER,
        expect={**LINK_IN, "port": "29500"},
    ),
    Fault(
        "random-master",
        BARE,
        wall(
            "iifname != eth1 accept; ct state established,related accept; meta l4proto icmp accept;"
            " tcp dport { 22, 29400, 29500 } accept",
            policy="drop",
        ),
        victim=MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "job-unit",
        TUNED,
        at(
            VICTIM,
            "mkdir -p /etc/systemd/system/fullmesh-job@.service.d\n"
            "printf '[Service]\\nIPAddressDeny=any\\n' > /etc/systemd/system/fullmesh-job@.service.d/fault.conf\n"
            "systemctl daemon-reload",
            "rm -r /etc/systemd/system/fullmesh-job@.service.d; systemctl daemon-reload",
        ),
        expect={"peer": "{peer}"},
    ),
    Fault(
        "job-account",
        BARE,
        (
            *at(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *wall("meta skuid 1999 ip daddr $P_ADDR drop", "output"),
        ),
        expect={**LINK_OUT, "port": WHOLE},
        variables={"launchers_job_user": "jobber"},
    ),
    Fault(
        "login-limits",
        BARE,
        (
            *at(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *at(
                VICTIM,
                "echo 'jobber - nproc 20' >/etc/security/limits.d/fault.conf",
                "rm /etc/security/limits.d/fault.conf",
            ),
        ),
        variables={"launchers_job_user": "jobber"},
    ),
    Fault(
        "arp-drop",
        BARE,
        at(
            VICTIM,
            "nft 'add table netdev fault; add chain netdev fault in"
            " { type filter hook ingress device eth1 priority 0; }'; nft add rule netdev fault in ether type arp drop\n"
            "ip neigh flush dev eth1",
            "nft delete table netdev fault",
        )
        + at(PEER, "ip neigh flush dev eth1", "true"),
        expect={"direction": "{victim} <-> {peer}", "peer": "{peer}"},
    ),
    Fault(
        "container-nat",
        BARE,
        (
            *service(f"unshare -n env RANK=1 {OF_TWO}"),
            *service(f"env RANK=0 {OF_TWO}", PEER),
            *at(VICTIM, NAT, "nft delete table inet fault; ip link del fault0"),
        ),
        expect={"direction": "{peer} -> {victim}", "peer": "{peer}"},
    ),
    Fault(
        "root-account",
        BARE,
        (
            *at(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *wall("meta skuid 0 ip daddr $P_ADDR ct state new drop", "output"),
        ),
        expect=LINK_OUT,
        variables={"launchers_job_user": "jobber"},
    ),
    Fault(
        "xdp",
        BARE,
        at(OUTSIDE, f"{XDP} $FIRST $LAST on", f"{XDP} $FIRST $LAST off"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "second-table",
        TUNED,
        wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "wrong-zone",
        TUNED,
        at(
            VICTIM,
            both("--remove-ingress-zone=ANY") + "\n" + both("--add-ingress-zone=internal"),
            both("--remove-ingress-zone=internal") + "\n" + both("--add-ingress-zone=ANY"),
        ),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "runtime-differs",
        TUNED,
        at(
            VICTIM,
            f"{JOB} --permanent --add-port=8080/tcp",
            f"{JOB} --permanent --remove-port=8080/tcp",
        ),
    ),
    Fault(
        "runtime-differs",
        TUNED,
        at(
            VICTIM,
            f"{JOB} --remove-rich-rule={DATA}",
            f"{JOB} --add-rich-rule={DATA}",
        ),
        "shut",
        severity="error",
        expect={"port": WHOLE},
    ),
    Fault(
        "range-reject",
        TUNED,
        at(
            VICTIM,
            both(f"--remove-rich-rule={DATA}"),
            both(f"--add-rich-rule={DATA}"),
        ),
        "zone",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "between",
        BARE,
        on_the_way(NEW + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "between",
        TUNED,
        on_the_way(NEW + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        "tuned",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
)

RANGES = (
    Fault(
        "range-drift",
        TUNED,
        sysctl("net.ipv4.ip_local_port_range=32768 60999"),
        expect={"port": "32768-60999"},
    ),
    # Somebody pinned the other node: the one that still has the kernel's own range was forgotten.
    Fault("range-drift-bare", BARE, sysctl("net.ipv4.ip_local_port_range=40000 44999", PEER)),
    Fault(
        "netns-range",
        TUNED,
        service(
            "unshare -n bash -c 'ip link add d0 type veth peer name d1 && ip link set d0 up"
            " && touch /run/fault.ready && exec -a torchrun sleep 900'"
        ),
    ),
    Fault("range-small", BARE, sysctl("net.ipv4.ip_local_port_range=50000 50009")),
    Fault(
        "range-small", TUNED, sysctl("net.ipv4.ip_local_port_range=50000 50009"), "tuned", MASTER
    ),
    Fault(
        "range-full",
        BARE,
        sysctl("net.ipv4.ip_local_port_range=50000 50063", ALL) + service(python(FILL)),
    ),
    Fault("range-reserved", TUNED, sysctl("net.ipv4.ip_local_reserved_ports=$FIRST-$LAST")),
    Fault(
        "port-in-range",
        TUNED,
        job_variable("MASTER_PORT=50004", ALL),
        victim=MASTER,
        expect={"port": "50004"},
    ),
)

JOBS = (
    Fault(
        "ifname-everywhere",
        TUNED,
        job_variable("GLOO_SOCKET_IFNAME=eth9", ALL),
        expect={"node": "{master}"},
    ),
    Fault(
        "ifname-everywhere",
        BARE,
        variable("NCCL_SOCKET_IFNAME=eth9", ALL),
        "nccl",
        expect={"node": "{master}"},
    ),
    Fault("ifname-one", TUNED, job_variable("GLOO_SOCKET_IFNAME=eth9")),
    Fault("ifname-lo", TUNED, job_variable("GLOO_SOCKET_IFNAME=lo")),
    Fault("master-localhost", TUNED, job_variable("MASTER_ADDR=localhost")),
    Fault("master-nobody", TUNED, job_variable("MASTER_ADDR=${P_ADDR%.*}.199")),
    Fault("master-unknown", TUNED, job_variable("MASTER_ADDR=no-such-node")),
    Fault("master-unknown", BARE, variable("MASTER_ADDR=no-such-node"), "bare"),
    Fault("master-port", TUNED, job_variable("MASTER_PORT=29999")),
    Fault("world-size", TUNED, job_variable("WORLD_SIZE=3")),
    Fault("node-rank", TUNED, job_variable("NODE_RANK=0")),
    Fault("proxy", BARE, variable("https_proxy=http://192.0.2.80:3128")),
    Fault("port-taken", TUNED, service(python(LISTEN)), victim=MASTER, expect={"port": "29500"}),
    Fault(
        "stale-job",
        TUNED,
        service(python(LISTEN, "-m", "torch.distributed.run", "train.py")),
        victim=MASTER,
        expect={"port": "29500"},
    ),
    Fault(
        "nccl-interface",
        TUNED,
        at(
            VICTIM,
            "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up",
            "ip link del docker0",
        )
        + job_variable("NCCL_SOCKET_IFNAME=docker0"),
    ),
    Fault(
        "nofile",
        BARE,
        edited(
            "/etc/security/limits.d/99-fault.conf",
            "printf 'root - nofile 128\\n* - nofile 128\\n' > /etc/security/limits.d/99-fault.conf; "
            + NEW_LOGIN,
            after=NEW_LOGIN,
        ),
        # 65 ranks: with 24 files, enough for two ranks, not even Python's own modules can be loaded
        variables={"fullmesh_local_ranks": 64},
    ),
    Fault("shm", TUNED, at(VICTIM, "mount -t tmpfs -o size=16m fault /dev/shm", "umount /dev/shm")),
    Fault(
        "torch-version",
        TUNED,
        at(
            VICTIM,
            f"sed -i 's/^Version: .*/Version: 2.1.0/' {DISTINFO}",
            f"sed -i 's/^Version: .*/Version: 2.13.0/' {DISTINFO}",
        ),
    ),
)

NAMES = (
    Fault("own-loopback", BARE, hosts('sed "/$V_HOST/d" $OLD; echo "127.0.1.1 $V_HOST"')),
    # systemd's nss-myhostname would find a name that no file has
    Fault(
        "own-unknown",
        BARE,
        hosts('sed "/$V_HOST/d" $OLD')
        + edited(
            "/etc/nsswitch.conf",
            "sed 's/^hosts:.*/hosts: files/' /run/fault_etc_nsswitch.conf > /etc/nsswitch.conf",
        ),
        victim=MASTER,
    ),
    Fault("own-foreign", BARE, hosts('sed "/$V_HOST/d" $OLD; echo "203.0.113.9 $V_HOST"')),
    Fault("master-loopback", TUNED, hosts('echo "127.0.0.1 $PEER"; cat $OLD')),
    Fault("families", BARE, hosts('sed "/$V_HOST/d" $OLD; echo "fd78::${V_ADDR##*.} $V_HOST"')),
    Fault(
        "dns-black-hole",
        BARE,
        hosts('sed "/$P_HOST/d" $OLD')
        + edited("/etc/resolv.conf", "echo nameserver $SILENT > /etc/resolv.conf")
        + at(
            VICTIM,
            "ip link add silent type veth peer name deaf; ip link set silent up; ip link set deaf up\n"
            "ip route add $SILENT/32 dev silent\n"
            "ip neigh add $SILENT lladdr 02:00:00:00:00:01 dev silent nud permanent",
            "ip link del silent",
        ),
        victim=MASTER,  # the other one asks systemd-resolved, which knows no name server and says so at once
    ),
)

LINKS = (
    Fault(
        "interface-down",
        BARE,
        at(
            VICTIM,
            "ip link set eth1 down",
            "ip link set eth1 up; ip addr replace fd78::${V_ADDR##*.}/64 dev eth1 nodad",
        ),
    ),
    Fault(
        "mtu",
        BARE,
        on_the_way("meta length gt 1400 drop", "V_CABLE", "P_CABLE"),
        expect={"port": ""},
    ),
    Fault(
        "mtu",
        BARE,
        at(
            ALL,
            NO_OFFLOAD.format(on=0) + "ip link set eth1 mtu 9000",
            NO_OFFLOAD.format(on=1) + "ip link set eth1 mtu 1500",
        ),
        "jumbo",
    ),
    Fault(
        "loss",
        BARE,
        on_the_way("meta l4proto tcp numgen random mod 100 < 20 drop", "V_CABLE", "P_CABLE"),
        victim=MASTER,  # neither end is to blame: the first is named
        expect={"peer": "{peer}", "direction": "{victim} <-> {peer}"},
    ),
    Fault(
        "slow",
        BARE,
        at(
            VICTIM,
            "tc qdisc add dev eth1 root tbf rate 10mbit burst 32kbit limit 4mb",
            "tc qdisc del dev eth1 root",
        ),
        expect=LINK_OUT,
    ),
    Fault(
        "duplicate",
        BARE,
        # Undone last: the peer may have learnt the other machine's address for the victim's, and keeps to it.
        at(ALL, "true", "ip neigh flush dev eth1")
        + at(
            OUTSIDE,
            "ip netns add fault$INDEX\n"
            "ip link add fault$INDEX type veth peer name eth1 netns fault$INDEX\n"
            "ip link set fault$INDEX master $BRIDGE up\n"
            "ip -n fault$INDEX link set eth1 up; ip -n fault$INDEX addr add $V_ADDR/24 dev eth1",
            # the cable at once: the kernel clears a namespace some time after it was deleted
            "ip link del fault$INDEX; ip netns del fault$INDEX",
        ),
        expect={"peer": "{peer}"},
    ),
    Fault(
        "rp-filter",
        BARE,
        sysctl("net.ipv4.conf.eth1.rp_filter=1")
        + at(
            VICTIM,
            "ip route add $P_ADDR via $P_MGMT dev eth0 src $V_ADDR",
            "ip route del $P_ADDR via $P_MGMT dev eth0",
        ),
    ),
    Fault(
        "no-route",
        BARE,
        at(VICTIM, "ip route add unreachable $P_ADDR/32", "ip route del unreachable $P_ADDR/32"),
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        at(VICTIM, "ip route add blackhole $P_ADDR/32", "ip route del blackhole $P_ADDR/32"),
        "blackhole",
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        at(VICTIM, "ip route add prohibit $P_ADDR/32", "ip route del prohibit $P_ADDR/32"),
        "prohibit",
        MASTER,
        expect=LINK_OUT,
    ),
    Fault(
        "refused",
        BARE,
        at(
            VICTIM,
            "ip rule add pref 99 ipproto tcp dport $FIRST-$LAST to $P_ADDR blackhole",
            "ip rule del pref 99",
        ),
        "rule",
        expect=LINK_OUT,
    ),
    Fault(
        "refused-account",
        BARE,
        at(
            VICTIM,
            "ip rule add pref 99 uidrange 1000-1999 to $P_ADDR prohibit",
            "ip rule del pref 99",
        ),
        expect=LINK_OUT,
    ),
    Fault(
        "astray",
        BARE,
        at(
            VICTIM,
            "ip link add fault type veth peer name fault1; ip link set fault up; ip link set fault1 up\n"
            "ip rule add pref 99 from $V_ADDR to $P_ADDR lookup 99; ip route add default dev fault table 99",
            "ip rule del pref 99; ip link del fault",
        ),
        expect=LINK_OUT,
    ),
    Fault(
        "ipsec",
        BARE,
        at(
            VICTIM,
            "ip xfrm policy add src $V_ADDR dst $P_ADDR dir out action block",
            "ip xfrm policy delete src $V_ADDR dst $P_ADDR dir out",
        ),
        expect={"peer": "{peer}"},
    ),
    Fault(
        "queue",
        BARE,
        at(VICTIM, "tc qdisc add dev eth1 root bfifo limit 100", "tc qdisc del dev eth1 root"),
        expect={"peer": "{peer}"},
    ),
    Fault(
        "neighbour-by-hand",
        BARE,
        at(
            VICTIM,
            "ip neigh replace $P_ADDR lladdr 02:00:00:00:00:99 dev eth1 nud permanent",
            "ip neigh del $P_ADDR dev eth1",
        ),
        expect=LINK_OUT,
    ),
    Fault(
        "one-name",
        BARE,
        # Gloo is told its card, so that where the name leads does not matter.
        variable("GLOO_SOCKET_IFNAME=eth1", ALL)
        + at(
            ALL,
            "hostname > /run/fault.name; hostname twins",
            "hostname $(cat /run/fault.name); rm /run/fault.name",
        ),
        expect={"peer": "{peer}"},
    ),
    Fault(
        "one-image",
        BARE,
        edited("/etc/machine-id", f"echo {'5' * 32} > /etc/machine-id", ALL)
        # No sshd takes it for its own: all that the nodes share is a public file.
        + edited(
            "/etc/ssh/ssh_host_fault_key.pub",
            "echo ssh-ed25519 ZmF1bHQ= fault > /etc/ssh/ssh_host_fault_key.pub",
            ALL,
        ),
        expect={"peer": "{peer}"},
    ),
    Fault("rank-left", BARE, variable("RANK=0")),
    Fault("ifname-left-out", BARE, variable("NCCL_SOCKET_IFNAME=^eth1")),
    Fault(
        "ifname-left-out",
        BARE,
        edited("/etc/nccl.conf", "echo NCCL_SOCKET_IFNAME=^eth1 >> /etc/nccl.conf"),
        "nccl-conf",
    ),
    Fault("nccl-conf-gone", BARE, variable("NCCL_CONF_FILE=/etc/nccl/gone.conf")),
    Fault(
        "wrong-source",
        BARE,
        at(
            VICTIM,
            "ip addr add 10.99.0.1/32 dev eth1; ip route add $P_ADDR/32 dev eth1 src 10.99.0.1",
            "ip route del $P_ADDR/32 dev eth1; ip addr del 10.99.0.1/32 dev eth1",
        ),
        expect=LINK_OUT,
    ),
    # Two may wait, two ranks open four connections to the store.
    Fault("backlog", BARE, sysctl("net.core.somaxconn=1"), victim=MASTER),
    Fault(
        "no-address",
        BARE,
        at(VICTIM, "ip addr del $V_ADDR/24 dev eth1", "ip addr add $V_ADDR/24 dev eth1"),
    ),
    Fault(
        "unreachable",
        BARE,
        at(
            VICTIM,
            "systemctl stop ssh.socket ssh sshd 2>/dev/null || true; pkill sshd || true",
            "systemctl start ssh 2>/dev/null || systemctl start sshd",
        ),
        deadline=30,
    ),
)


# A module that all of ours import first: they ask for no site's customisation (python -I -S).
JSON = "$(python3 -I -S -c 'import json; print(json.__file__)')"


def in_python(code: str) -> str:
    """Something that every Python program on the node which reads or writes JSON believes from now on."""
    return (
        f"file={JSON}; cp -p $file /run/fault.json; printf '{code}' >> /run/fault.json\n"
        "mount --bind /run/fault.json $file"
    )


NOT_IN_PYTHON = f"umount {JSON}; rm -f /run/fault.json"


def memlock(value: int) -> str:
    """A limit of locked memory, as Python is told: nobody can raise what the machine below the lab set."""
    return in_python(
        "import resource\\nreal = resource.getrlimit\\nresource.getrlimit = lambda what:"
        f" ({value}, {value}) if what == resource.RLIMIT_MEMLOCK else real(what)\\n"
    )


# A container has the machine's clock, and nobody may turn that.
LATE = in_python("import time\\nreal = time.time\\ntime.time = lambda: real() - 20\\n")


def rdma(
    name: str = "mlx5_0",
    vendor: str = "0x15b3",
    state: str = "4: ACTIVE",
    kind: str = "RoCE v2",
    locked: int = -1,
) -> str:
    """An RDMA device in files: what the kernel would show of one, laid over /sys/class."""
    port = f"/run/fault.class/infiniband/{name}/ports/1"
    return f"""
mkdir /run/fault.class; mount -t tmpfs fault /run/fault.class; cp -a /sys/class/net /run/fault.class/
mkdir -p {port}/gids {port}/gid_attrs/types /run/fault.class/infiniband/{name}/device
echo '{state}' > {port}/state; echo '5: LinkUp' > {port}/phys_state
echo Ethernet > {port}/link_layer; echo '100 Gb/sec (4X EDR)' > {port}/rate
echo {vendor} > /run/fault.class/infiniband/{name}/device/vendor
echo fe80:0000:0000:0000:0200:00ff:fe00:0001 > {port}/gids/0; echo '{kind}' > {port}/gid_attrs/types/0
mount --bind /run/fault.class /sys/class
{memlock(locked)}"""


NO_RDMA = f"""umount /sys/class || true; umount /run/fault.class || true; rmdir /run/fault.class
{NOT_IN_PYTHON}"""


def gpus(play: str, *victim: str) -> tuple[Step, ...]:
    """GPUs on both nodes: the real nvidia-smi over the lab's stand-in; *victim*: what differs on the broken one."""
    settings = f"PYTHONPATH={ROOT}/src FULLMESH_LAB_HOME={paths.find().home}"
    command = f"env {settings} {sys.executable} -m devtools.lab gpus --name $LAB"
    return at(
        OUTSIDE,
        f"{command} $PEER {play} && {command} $VICTIM {play} {shlex.join(victim)}",
        f"{command} $VICTIM none; {command} $PEER none",
    )


def gpu(case: str, *victim: str) -> Fault:
    """A fault of eight H100 of a node that passes for a machine."""
    return Fault(f"gpu-{case}", BARE, gpus("h100x8 machine=1", *victim))


def gpu_way(case: str, *victim: str) -> Fault:
    """The same with eight RDMA cards, which want more locked memory than this machine gives its labs."""
    steps = at(ALL, memlock(-1), NOT_IN_PYTHON)
    return Fault(f"gpu-{case}", BARE, steps + gpus("h100x8 machine=1 rdma=8", *victim))


GPU_FAULTS = (
    gpu("driver", "error=18"),
    gpu("hidden", "gpus=7"),
    gpu("xid", "3.xid=79, pid=4711, GPU has fallen off the bus."),
    gpu("program", "3.xid=31, pid=812, name=python, Ch 0000000b, MMU Fault"),
    gpu("ecc", "0.ecc_lost=2"),
    gpu("remap", "1.remap_failed=1"),
    gpu("pending", "2.remap_pending=1"),
    gpu("lanes", "7.width=4"),
    gpu("persistence", "*.persistence=0"),
    gpu("nvlink", "3.links_down=2"),
    gpu("bridge", "3.links=12"),
    gpu("fabric", "*.fabric=2", "fm=inactive"),
    gpu("manager", "fm_version=580.82.07"),
    gpu("hot", "4.throttle=0x48"),
    gpu("prohibited", "5.compute_mode=2"),
    gpu("mig", "0.mig=1"),
    gpu("held", "6.memory_used=30000000000"),
    gpu("acs", "acs=0x1d"),
    gpu("iommu", "iommu=DMA-FQ"),
    gpu_way("direct", "open=0"),
    gpu_way("socket", "*.numa=0", "rdma_numa=1"),
)


# No container has these things; files and a stand-in for NVML say that it has.
FAKES = (
    Fault("gpus", BARE, gpus("h200x8", "gpus=7")),
    Fault(
        "rdma-port", BARE, at(VICTIM, rdma(state="1: DOWN"), NO_RDMA) + at(PEER, rdma(), NO_RDMA)
    ),
    Fault(
        "roce-gid", BARE, at(VICTIM, rdma(kind="IB/RoCE v1"), NO_RDMA) + at(PEER, rdma(), NO_RDMA)
    ),
    Fault(
        "rdma-tcp",
        BARE,
        at(ALL, rdma(), NO_RDMA) + wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect=LINK_IN,
    ),
    Fault(
        "efa",
        BARE,
        at(ALL, rdma("efa_0", "0x1d0f"), NO_RDMA)
        + on_the_way(NEW + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        expect=LINK_IN,
    ),
    Fault(
        "memlock",
        BARE,
        at(VICTIM, rdma(locked=65536), NO_RDMA) + at(PEER, rdma(), NO_RDMA),
    ),
    Fault("clock", BARE, at(VICTIM, LATE, NOT_IN_PYTHON)),
    Fault(
        "service-drop",
        BARE,
        wall("iifname eth1 tcp dport 6379 drop"),
        "ray",
        MASTER,
        expect={**LINK_IN, "port": "6379"},
        variables={"fullmesh_services": ["ray"]},
    ),
    Fault(
        "service-loopback",
        BARE,
        service(python("s = socket.create_server(('127.0.0.1', 8000))")),
        expect={**LINK_IN, "port": "8000"},
        variables={"fullmesh_services": [{"name": "api", "ports": [8000]}]},
    ),
    Fault("no-python", BARE, (), variables={"ansible_python_interpreter": "/opt/none/bin/python3"}),
)


def nft_file(text: str) -> tuple[Step, ...]:
    """What nftables.service loads at boot, enabled and not started; Debian and EL have it in two places."""
    return at(
        VICTIM,
        "F=/etc/nftables.conf; [ -d /etc/sysconfig ] && F=/etc/sysconfig/nftables.conf\n"
        f"[ -e $F ] && cat $F > /run/fault.nft; printf '%s\\n' '{text}' > $F; systemctl -q enable nftables",
        "F=/etc/nftables.conf; [ -d /etc/sysconfig ] && F=/etc/sysconfig/nftables.conf\n"
        "systemctl -q disable nftables\n"
        "if [ -e /run/fault.nft ]; then cat /run/fault.nft > $F; rm /run/fault.nft; else rm $F; fi",
    )


WALL_FILE = "table inet wall { chain input { type filter hook input priority 0; policy drop; tcp dport 22 accept; }; }"
# Nothing of these is in force: a reboot, months later, makes it so.
BOOTS = (
    Fault(
        "boot-sysctl",
        TUNED,
        edited(
            "/etc/sysctl.d/99-local.conf",
            "echo net.ipv4.tcp_mtu_probing=2 > /etc/sysctl.d/99-local.conf",
        ),
    ),
    Fault(
        "boot-unit",
        TUNED,
        at(VICTIM, "systemctl -q disable chrony", "systemctl -q enable chrony"),
    ),
    Fault("boot-firewall", TUNED, nft_file(WALL_FILE)),
    Fault(
        "boot-address",
        TUNED,
        edited(
            "/etc/netplan/90-fullmesh.yaml",
            'sed -i "s,$V_ADDR/24,$SILENT/24," /etc/netplan/90-fullmesh.yaml',
        ),
    ),
    Fault(
        "boot-route",
        TUNED,
        at(VICTIM, "ip route add $P_ADDR/32 dev eth1", "ip route del $P_ADDR/32 dev eth1"),
    ),
    Fault(
        "boot-fstab",
        TUNED,
        edited("/etc/fstab", "echo /dev/disk/by-label/data /data xfs defaults 0 2 >> /etc/fstab"),
    ),
)
FAULTS: tuple[Fault, ...] = (*WALLS, *RANGES, *JOBS, *NAMES, *LINKS, *FAKES, *GPU_FAULTS, *BOOTS)
