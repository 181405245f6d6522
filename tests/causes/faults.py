"""What a fault of a lab node is made of: what it does, what undoes it, what must be said.

The scripts are ``sh -eu``. They know ``$LAB``, ``$VICTIM $PEER`` (inventory names), ``$V_ADDR $P_ADDR`` (cluster
addresses), ``$V_HOST $P_HOST`` (host names), ``$V_MGMT $P_MGMT``, ``$V_CABLE $P_CABLE`` (this machine's ends of their
cluster cables), ``$V_PID`` (the victim's first process), ``$BRIDGE`` and ``$INDEX`` (of the lab's cluster network),
``$NFT`` (nft in this machine's network), ``$FIRST $MIDDLE $LAST`` (the range from which jobs take ports), ``$SILENT``
(an address that never answers).
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


def login_variable(setting: str, where: str = VICTIM) -> tuple[Step, ...]:
    """A variable of the job's environment on a node that nobody configured; a login keeps what it began with."""
    change = f'echo "{setting}" >> /etc/environment; {NEW_LOGIN}'
    return edited("/etc/environment", change, where, after=NEW_LOGIN)


def closed(path: str, mode: str, where: str = VICTIM) -> tuple[Step, ...]:
    """A file or folder with another mode."""
    keep = f"/run/fault.mode{path.replace('/', '_')}"
    do = f"stat -c %a {path} > {keep}; chmod {mode} {path}"
    return at(where, do, f"chmod $(cat {keep}) {path}; rm {keep}")


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
FIRST_PACKET = "tcp flags & (syn | ack) == syn "


LISTEN = "s = socket.create_server(('0.0.0.0', 29500))"


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


def fake_rdma(
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


def fake_gpus(play: str, *victim: str) -> tuple[Step, ...]:
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
    return Fault(f"gpu-{case}", BARE, fake_gpus("h100x8 machine=1", *victim))


def gpu_way(case: str, *victim: str) -> Fault:
    """The same with eight RDMA cards, which want more locked memory than this machine gives its labs."""
    steps = at(ALL, memlock(-1), NOT_IN_PYTHON)
    return Fault(f"gpu-{case}", BARE, steps + fake_gpus("h100x8 machine=1 rdma=8", *victim))
