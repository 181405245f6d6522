"""The parts of a fault of a lab node: its cause, its undo, the expected finding.

The scripts run with ``sh -eu``. These variables are set: ``$LAB``, ``$VICTIM $PEER`` (inventory
names), ``$V_ADDR $P_ADDR`` (cluster addresses), ``$V_HOST $P_HOST`` (host names), ``$V_MGMT
$P_MGMT`` (management addresses), ``$V_CABLE $P_CABLE`` (this machine's ends of their cluster
cables), ``$V_PID`` (the victim's first process), ``$BRIDGE`` and ``$INDEX`` (of the lab's cluster
network), ``$NFT`` (nft in this machine's network namespace), ``$FIRST $MIDDLE $LAST`` (the range of
the jobs' ports), ``$SILENT`` (an address that never answers).
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


TUNED, BARE = "tuned", "bare"  # TUNED: configured by site.yml, BARE: only addresses, set by hand


MASTER, WORKER = "master", "worker"


TO_VICTIM, FROM_VICTIM = "{peer} -> {victim}", "{victim} -> {peer}"


LINK_IN = {"peer": "{peer}", "direction": TO_VICTIM}


LINK_OUT = {"peer": "{peer}", "direction": FROM_VICTIM}


WHOLE = "{first}-{last}/tcp"


# Limits and variables take effect at login, and Ansible keeps its logins open.
NEW_LOGIN = "pkill -f '^sshd: root' || true"


@dataclass(frozen=True)
class Step:
    """One change and its undo."""

    at: str
    do: str
    undo: str


@dataclass(frozen=True)
class Fault:
    """A cause that a script makes on a node.

    Attributes:
        case: its name in the cases of the causes, which have the code.
        lab: the lab that it needs.
        steps: undone in reverse order.
        variant: distinguishes two faults of one case.
        victim: the master's node or the other one.
        code: set if it differs from that of the cause.
        severity: set if it differs from that of the cause.
        expect: fields of the primary finding, with names filled in. It contains ``port`` and ``cause``.
        variables: further inventory variables of the victim, or of both nodes for a cluster
            setting.
        deadline: seconds for the diagnosis, 0 for the default.
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
        """Return the name that tests and the table use."""
        return "-".join(word for word in (self.case, self.variant) if word)


def make_step(where: str, do: str, undo: str) -> tuple[Step, ...]:
    """Make one step."""
    return (Step(where, do, undo),)


def make_chain(rules: str, hook: str = "input", policy: str = "accept") -> str:
    """Make an nftables table with one chain. Semicolons separate the ``rules``."""
    head = f"type filter hook {hook} priority 0; policy {policy};"
    return (
        f"nft 'add table inet fault; add chain inet fault {hook} {{ {head} }}' && "
        + " && ".join(
            f'nft "add rule inet fault {hook} {rule.strip()}"' for rule in rules.split(";")
        )
    )


def add_firewall(rules: str, hook: str = "input", policy: str = "accept") -> tuple[Step, ...]:
    """Make a firewall on the victim."""
    return make_step(VICTIM, make_chain(rules, hook, policy), "nft delete table inet fault")


# The policy that accepts the peers, and its rule for the range.
JOB = "firewall-cmd -q --policy=fullmesh-job"


DATA = '"rule family=ipv4 source ipset=fullmesh-peers4 port port=$FIRST-$LAST protocol=tcp accept"'


def change_policy(change: str) -> str:
    """Change that policy, both its runtime and its permanent configuration."""
    return f"{JOB} {change}\n{JOB} --permanent {change}"


def add_rule_between(rule: str, *cables: str) -> tuple[Step, ...]:
    """Add a rule between the nodes, on this machine's end of a node's cable."""
    do, undo = [], []
    for number, cable in enumerate(cables):
        table = f"netdev fault_${{INDEX}}_{number}"
        head = f"type filter hook ingress device ${cable} priority 0;"
        do += [
            f'$NFT "add table {table}; add chain {table} way {{ {head} }}"',
            f'$NFT "add rule {table} way {rule}"',
        ]
        undo.append(f"$NFT delete table {table}")
    return make_step(OUTSIDE, "\n".join(do), "\n".join(undo))


def set_sysctl(setting: str, where: str = VICTIM) -> tuple[Step, ...]:
    """Set a sysctl. The undo restores its old value."""
    key, value = setting.split("=", 1)
    path = "/proc/sys/" + key.replace(".", "/")
    keep = f"/run/fault.{key}"
    return make_step(
        where, f"cat {path} > {keep}; echo {value} > {path}", f"cat {keep} > {path}; rm {keep}"
    )


def edit_file(path: str, edit: str, where: str = VICTIM, after: str = "true") -> tuple[Step, ...]:
    """Edit a file. The undo restores its bytes in place, because /etc/hosts is a mount in a container."""
    keep = f"/run/fault{path.replace('/', '_')}"
    do = f"[ -e {path} ] && cat {path} > {keep}; touch {path}; {edit}"
    undo = f"if [ -e {keep} ]; then cat {keep} > {path}; rm {keep}; else rm {path}; fi; {after}"
    return make_step(where, do, undo)


def set_job_variable(setting: str, where: str = VICTIM) -> tuple[Step, ...]:
    """Set a variable of the job's environment on a configured node."""
    name = setting.split("=", 1)[0]
    text = f"sed '/^{name}=/d' /run/fault_etc_fullmesh_env > /etc/fullmesh/env; echo \"{setting}\" >> /etc/fullmesh/env"
    return edit_file("/etc/fullmesh/env", text, where)


def set_login_variable(setting: str, where: str = VICTIM) -> tuple[Step, ...]:
    """Set a variable of the job's environment on an unconfigured node, where a login keeps its first values."""
    change = f'echo "{setting}" >> /etc/environment; {NEW_LOGIN}'
    return edit_file("/etc/environment", change, where, after=NEW_LOGIN)


def set_mode(path: str, mode: str, where: str = VICTIM) -> tuple[Step, ...]:
    """Give a file or folder another mode."""
    keep = f"/run/fault.mode{path.replace('/', '_')}"
    do = f"stat -c %a {path} > {keep}; chmod {mode} {path}"
    return make_step(where, do, f"chmod $(cat {keep}) {path}; rm {keep}")


def job_account(do: str, undo: str = "true") -> tuple[Step, ...]:
    """Give jobs the account ``trainer``, as launchers_job_user does, then run *do*."""
    unit, keep = "/etc/systemd/system/fullmesh-job@.service", "/run/fault.unit"
    return make_step(
        VICTIM,
        f"useradd -m -s /bin/bash trainer; cp -p {unit} {keep}\n"
        f"sed -i 's/^User=.*/User=trainer/; s/^ExecStartPre=.*/ExecStartPre=/' {unit}\n{do}\nsystemctl daemon-reload",
        f"{undo}\ncp -p {keep} {unit}; rm {keep}; systemctl daemon-reload; userdel -r trainer",
    )


def edit_hosts(edit: str, where: str = VICTIM) -> tuple[Step, ...]:
    """Edit /etc/hosts: ``edit`` prints the new text, and ``$OLD`` is the old one."""
    return edit_file(
        "/etc/hosts",
        f"OLD=/run/fault_etc_hosts; {{ {edit}; }} > /run/fault.new; cat /run/fault.new > /etc/hosts; rm /run/fault.new",
        where,
    )


def run_service(command: str, where: str = VICTIM) -> tuple[Step, ...]:
    """Run a process until the undo. The step waits until it prints ``ready``."""
    return make_step(
        where,
        "systemctl reset-failed fault.service 2>/dev/null || true\n"
        "rm -f /run/fault.ready\n"
        f"systemd-run --quiet --unit=fault --property=PrivateTmp=no {command}\n"
        "for _ in $(seq 1500); do [ -e /run/fault.ready ] && exit 0; sleep 0.05; done; exit 1",
        "systemctl stop fault.service || true; rm -f /run/fault.ready",
    )


def make_python_command(code: str, *words: str) -> str:
    """Make a Python program the command of a service."""
    lines = [
        "import socket, time",
        *code.strip().splitlines(),
        "open('/run/fault.ready', 'w').close()",
        "time.sleep(900)",
    ]
    joined = "\n".join(lines).replace('"', '\\"')
    return f'python3 -c "{joined}" {" ".join(words)}'


# As in a security group, which lets answers through.
FIRST_PACKET = "tcp flags & (syn | ack) == syn "


LISTEN = "s = socket.create_server(('0.0.0.0', 29500))"


# The first module that all of Fullmesh's programs import. They ignore site customization (python -I
# -S).
JSON = "$(python3 -I -S -c 'import json; print(json.__file__)')"


def run_in_every_python(code: str) -> str:
    """Run code in every Python program on the node that reads or writes JSON."""
    return (
        f"file={JSON}; cp -p $file /run/fault.json; printf '{code}' >> /run/fault.json\n"
        "mount --bind /run/fault.json $file"
    )


NOT_IN_PYTHON = f"umount {JSON}; rm -f /run/fault.json"


def report_memlock(value: int) -> str:
    """Set the limit of locked memory that Python reports. A lab cannot raise that of its host."""
    return run_in_every_python(
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
    """Make an RDMA device from files laid over /sys/class, as the kernel would show it."""
    port = f"/run/fault.class/infiniband/{name}/ports/1"
    return f"""
mkdir /run/fault.class; mount -t tmpfs fault /run/fault.class; cp -a /sys/class/net /run/fault.class/
mkdir -p {port}/gids {port}/gid_attrs/types /run/fault.class/infiniband/{name}/device
echo '{state}' > {port}/state; echo '5: LinkUp' > {port}/phys_state
echo Ethernet > {port}/link_layer; echo '100 Gb/sec (4X EDR)' > {port}/rate
echo {vendor} > /run/fault.class/infiniband/{name}/device/vendor
echo fe80:0000:0000:0000:0200:00ff:fe00:0001 > {port}/gids/0; echo '{kind}' > {port}/gid_attrs/types/0
mount --bind /run/fault.class /sys/class
{report_memlock(locked)}"""


NO_RDMA = f"""umount /sys/class || true; umount /run/fault.class || true; rmdir /run/fault.class
{NOT_IN_PYTHON}"""


def fake_gpus(play: str, *victim: str) -> tuple[Step, ...]:
    """Make GPUs on both nodes: the real nvidia-smi over a simulated NVML. *victim*: differences of the faulty node."""
    settings = f"PYTHONPATH={ROOT}/src FULLMESH_LAB_HOME={paths.find().home}"
    command = f"env {settings} {sys.executable} -m devtools.lab gpus --name $LAB"
    return make_step(
        OUTSIDE,
        f"{command} $PEER {play} && {command} $VICTIM {play} {shlex.join(victim)}",
        f"{command} $VICTIM none; {command} $PEER none",
    )


def make_gpu_fault(case: str, *victim: str) -> Fault:
    """Make a fault of eight H100 on a node that looks like a machine."""
    return Fault(f"gpu-{case}", BARE, fake_gpus("h100x8 machine=1", *victim))


def make_gpu_path_fault(case: str, *victim: str) -> Fault:
    """Do the same with eight RDMA NICs, which need more locked memory than this machine gives its labs."""
    steps = make_step(ALL, report_memlock(-1), NOT_IN_PYTHON)
    return Fault(f"gpu-{case}", BARE, steps + fake_gpus("h100x8 machine=1 rdma=8", *victim))
