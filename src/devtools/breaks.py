"""The mistakes that ``fullmesh demo --break`` makes on a lab node, each with its undo.

They are a selection of those in tests/faults, and a test compares both. The scripts run in ``sh -eu`` with the
variables ``$FIRST $LAST`` (the data range), ``$P_NAME`` (the peer's name) and ``$NIC`` (the cluster's interface).
"""

from __future__ import annotations

from dataclasses import dataclass

from fullmesh.causes.engine import index_cases

ENVIRONMENT = "/etc/fullmesh/env"
RULE = '"rule family=ipv4 source ipset=fullmesh-peers4 port port=$FIRST-$LAST protocol=tcp accept"'
JOB = "firewall-cmd -q --policy=fullmesh-job"
HOLD = (
    "import socket, time; s = socket.create_server(('0.0.0.0', 29500));"
    " open('/run/fullmesh-demo.ready', 'w').close(); time.sleep(900)"
)


@dataclass(frozen=True)
class Break:
    """A mistake.

    Attributes:
        case: its name among the cases of the causes, which know the code.
        story: the change that was made, in words.
        do: makes it.
        undo: reverts it.
        master: made on the node of rank 0, else on another one.
    """

    case: str
    story: str
    do: str
    undo: str
    master: bool = False

    @property
    def code(self) -> str:
        """The code that the diagnosis must report."""
        return index_cases()[self.case][0].code


def kept(path: str) -> str:
    """Return the path of a file's saved bytes."""
    return f"/run/fullmesh-demo{path.replace('/', '_')}"


def edited(case: str, story: str, path: str, edit: str) -> Break:
    """Build a change of a file; ``$OLD`` is the saved file. In a container, /etc/hosts is a mount: write in place."""
    old = kept(path)
    return Break(
        case,
        story,
        f"cp {path} {old}; OLD={old}; {{ {edit}; }} > {old}.new; cat {old}.new > {path}",
        f"[ ! -e {old} ] || cat {old} > {path}; rm -f {old} {old}.new",
    )


def variable(case: str, story: str, setting: str) -> Break:
    """Build a change of a variable in the jobs' environment."""
    name = setting.partition("=")[0]
    return edited(case, story, ENVIRONMENT, f"sed '/^{name}=/d' $OLD; echo '{setting}'")


BREAKS = (
    Break(
        "second-table",
        "another firewall was loaded, which drops the ports that jobs use",
        "nft 'add table inet demo; add chain inet demo input { type filter hook input priority 0; policy accept; }';"
        ' nft "add rule inet demo input iifname $NIC tcp dport $FIRST-$LAST drop"',
        "nft delete table inet demo",
    ),
    Break(
        "runtime-differs",
        "the rule for the jobs' ports was removed from firewalld, until its next reload",
        f"{JOB} --remove-rich-rule={RULE}",
        f"{JOB} --add-rich-rule={RULE}",
    ),
    Break(
        "range-drift",
        "a tuning guide's sysctl changed the range of ephemeral ports",
        "sysctl -q -w net.ipv4.ip_local_port_range='32768 60999'",
        'sysctl -q -w net.ipv4.ip_local_port_range="$FIRST $LAST"',
    ),
    Break(
        "port-taken",
        "a service was started on the port of the master, 29500",
        f'systemd-run --quiet --unit=fullmesh-demo --property=PrivateTmp=no python3 -c "{HOLD}";'
        " for _ in $(seq 200); do [ ! -e /run/fullmesh-demo.ready ] || break; sleep 0.1; done",
        "systemctl stop fullmesh-demo.service; rm -f /run/fullmesh-demo.ready",
        master=True,
    ),
    edited(
        "master-loopback",
        "an installer mapped the master's name to 127.0.0.1 in /etc/hosts",
        "/etc/hosts",
        'echo "127.0.0.1 $P_NAME"; cat $OLD',
    ),
    variable(
        "ifname-lo",
        "a copied script set GLOO_SOCKET_IFNAME to the loopback interface",
        "GLOO_SOCKET_IFNAME=lo",
    ),
    variable(
        "master-localhost", "a copied script set MASTER_ADDR to localhost", "MASTER_ADDR=localhost"
    ),
    Break(
        "shm",
        "a container's default of 16 MB is mounted on /dev/shm",
        "mount -t tmpfs -o size=16m demo /dev/shm",
        "umount /dev/shm",
    ),
)
NAMES = tuple(one.case for one in BREAKS)
