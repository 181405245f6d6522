"""A real Slurm on lab nodes, as a site has it: slurmctld on the first node, slurmd on all, one munge key."""

from __future__ import annotations

from collections.abc import Sequence

from lab_nodes import Node

PORTS = ("6817/tcp", "6818/tcp")
SERVICES = f'{{"fullmesh_services": [{{"name": "slurm", "ports": ["{PORTS[0]}", "{PORTS[1]}"]}}]}}'
INSTALL = """
if command -v apt-get >/dev/null; then
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install slurmctld slurmd slurm-client munge
else
    dnf -q -y install slurm-slurmctld slurm-slurmd
fi
"""
# Cgroups are not the lab's to give; Debian's build looks for a plugin even if nothing is confined.
CGROUP = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\n"
START = """
install -d -m 700 -o munge -g munge /etc/munge /var/lib/munge /var/log/munge
printf 'the lab has no secrets, and munge wants 32 bytes or more' > /etc/munge/munge.key
chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
mkdir -p /var/spool/slurmctld /var/spool/slurmd
systemctl daemon-reload
systemctl enable -q munge slurmd
systemctl restart munge
"""


def build_slurm_conf(nodes: Sequence[Node], ports: tuple[int, int], more: str = "") -> str:
    """Return slurm.conf. *ports*: the first and last one on which srun listens."""
    first = nodes[0]
    lines = [
        "ClusterName=lab",
        f"SlurmctldHost={first.hostname}({first.address})",
        *("SlurmUser=root", "AuthType=auth/munge", "SlurmctldPort=6817", "SlurmdPort=6818"),
        f"SrunPortRange={ports[0]}-{ports[1]}",
        *("StateSaveLocation=/var/spool/slurmctld", "SlurmdSpoolDir=/var/spool/slurmd"),
        *("ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none"),
        *("JobAcctGatherType=jobacct_gather/none", "SelectType=select/linear", "ReturnToService=2"),
        *(
            f"NodeName={one.name} NodeAddr={one.address} NodeHostname={one.hostname} CPUs=2"
            for one in nodes
        ),
        "PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP",
        more,
    ]
    return "\n".join(lines) + "\n"


def write_slurm_conf(nodes: Sequence[Node], ports: tuple[int, int], more: str = "") -> None:
    """Write slurm.conf on all nodes and restart Slurm."""
    text = build_slurm_conf(nodes, ports, more)
    for one in nodes:
        one.on(f"cat > /etc/slurm/slurm.conf <<'END'\n{text}END\n{START}")
    nodes[0].on("systemctl enable -q slurmctld; systemctl restart slurmctld")
    # a slurmd that starts before the controller registers late
    for one in nodes:
        one.on("systemctl restart slurmd")
    wait = (
        "for _ in $(seq 60); do\n"
        f'[ "$(sinfo -h -t idle -o %D)" != {len(nodes)} ] || exit 0; sleep 0.5\ndone; sinfo; exit 1'
    )
    nodes[0].on(wait)


def install_slurm(nodes: Sequence[Node], ports: tuple[int, int]) -> None:
    """Install Slurm on lab nodes whose firewall has its ports open, and start it."""
    for one in nodes:
        one.on(f"{INSTALL}mkdir -p /etc/slurm\nprintf '{CGROUP}' > /etc/slurm/cgroup.conf")
    write_slurm_conf(nodes, ports)
