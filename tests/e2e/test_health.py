"""Break nodes in 52 ways, and see what `fullmesh-check`, the timer and Slurm's prolog say.

The faults of the network, disks, mounts and files are real. GPUs, the driver and its log, RDMA, memory, an interface's
duplex and a wrong clock are STAND-INS: nodes are containers of this machine. So are Slurm's programs, which only record
how they are called. Real Slurm: molecule/launchers/tasks/health.yml.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from lab_nodes import Node, list_lab_nodes, run_shell
from plays import Done, read_output, run

from fullmesh.settings import ROOT

from .conftest import expect_success, site

LAB = os.environ.get("FULLMESH_HEALTH_LAB", "e2e-health")
KEPT = LAB != "e2e-health"  # a configured lab that stays, for work on these tests
VALUES = (
    *("-e", "torch_runtime_accelerator=cpu", "-e", "node_health_manage=true"),
    *("-e", "fullmesh_local_ranks=2"),
)
SETTINGS = (*VALUES, "--skip-tags", "verify,torch_runtime,nccl")
# A setting of each role that changes files or services of a lab node. The other roles change packages only, or need
# SELinux or a GPU.
PARTS = {
    "static_ip": {
        "fullmesh_address": [
            "{{ ansible_host | replace('10.77.', '10.78.') }}/24",
            "{{ ansible_host | replace('10.77.', '10.79.') }}/24",
        ]
    },
    "name_resolution": {"name_resolution_own_names": False},
    "peer_firewall": {"fullmesh_services": [{"name": "metrics", "ports": ["9100/tcp"]}]},
    "time_sync": {"time_sync_disable_other_sources": True, "time_sync_source": "leader"},
    "kernel_tuning": {"kernel_tuning_rtt_ms": 2},
    "cluster_env": {"cluster_env_timeout_seconds": 121},
    "launchers": {"launchers_watch_seconds": 61},
    "node_health": {"node_health_interval_minutes": 6},
    "node_ssh": {"node_ssh_manage": True},
}
GPUS = ("h100x2", "machine=1", "rdma=2")
CHECK = "/opt/fullmesh/bin/fullmesh-check node links"
CALLS = "/run/slurm-calls"
SINFO = "#!/bin/sh\nprintf '%s\\n' 'el1|mixed|none' 'ubuntu1|mixed|none'"
SCONTROL = f'#!/bin/sh\necho "$*" >> {CALLS}'
# systemd allows 5 starts in 10 s
RECORD = "systemctl reset-failed fullmesh-health.service; systemctl start fullmesh-health.service"
TABLE = ROOT / ".fullmesh/health-faults.tsv"  # fault, code, seconds and CPU seconds of a check
rows: list[str] = []
LONGEST = 4.0  # seconds of a check on a busy machine, 2 on others
LONGEST_UNIT = 20.0
FUSE = (ROOT / "tests/support/stalled_files.py").read_text()
WITHIN = 120  # seconds until a repaired node is fit: a link comes up, an address is found again
DRIFT = "HC-151"


@dataclass(frozen=True)
class HealthFault:
    """What breaks a node, and what is said of it.

    Attributes:
        code: the first that is named.
        words: in its text.
        make, undo: shell scripts.
        where: the node that they run on.
        seen_from: the node that is checked.
        gpus: settings of the simulated GPUs, instead of *make*.
        job: nodes of the Slurm job, instead of both.
    """

    code: str
    words: str
    make: str = ""
    undo: str = ""
    where: str = "el1"
    seen_from: str = "el1"
    gpus: tuple[str, ...] = ()
    job: str = "el1,ubuntu1"


def make_drop_fault(rule: str, hook: str = "input") -> HealthFault:
    """A table of nft on the other node, which another program or a person made."""
    chain = f"chain c {{ type filter hook {hook} priority -300; {rule}; }}"
    return HealthFault(
        "HC-161",
        "ubuntu1 (",
        f"nft 'table inet broken {{ {chain}; }}'",
        "nft delete table inet broken",
        where="ubuntu1",
    )


def make_route_fault(*route: str) -> HealthFault:
    """A route of el1 to the other node."""
    words = " ".join(route)
    return HealthFault(
        "HC-161", "ubuntu1 (", f"ip {words.format('add')}", f"ip {words.format('del')}"
    )


def make_gpu_fault(code: str, words: str, *settings: str) -> HealthFault:
    return HealthFault(code, words, gpus=(*GPUS, *settings))


def make_file_fault(code: str, words: str, path: str, text: str, mode: str = "0644") -> HealthFault:
    """A STAND-IN for a file: of the kernel, or a program."""
    made = f"cat > /run/replaced <<'END'\n{text}\nEND\nchmod {mode} /run/replaced"
    return HealthFault(code, words, f"{made}\nmount --bind /run/replaced {path}", f"umount {path}")


def make_mount_fault(code: str, words: str, options: str, more: str = ":") -> HealthFault:
    """Another file system at /tmp."""
    make = f"mount -t tmpfs -o {options} none /tmp; {more}"
    return HealthFault(code, words, make, "umount /tmp")


def make_stalled_mount_fault(way: str, stop: str) -> HealthFault:
    """A mount whose server does not answer."""
    server = f"/run/stalled.py /home/data {way}"
    make = (
        f"mkdir -p /home/data; cat > /run/stalled.py <<'END'\n{FUSE}\nEND\n"
        f"setsid python3 {server} >/dev/null 2>&1 &\n"
        "for i in $(seq 50); do grep -q '/home/data ' /proc/mounts && break; sleep 0.1; done\n"
        f"{stop}"
    )
    undo = "pkill -KILL -f '^python3 /run/stalled.py' || true; umount -l /home/data"
    return HealthFault("HC-143", "mount /home/data (fuse.stalled, stalled)", make, undo)


# a program that asks a server that never answers
HANGING_SMI = """
printf '%s\\n' '#!/usr/bin/python3' 'import os; os.statvfs("/home/data")' > /run/smi
chmod 0755 /run/smi
mount --bind /run/smi /usr/bin/nvidia-smi
"""
UP = {
    "el1": "ip link set eth1 up; nmcli -w 20 connection up fullmesh-eth1",
    "ubuntu1": "ip link set eth1 up; networkctl reconfigure eth1",
}
PORTS = "tcp dport 50000-54095"
FAULTS: dict[str, HealthFault] = {
    # --- a link breaks between two jobs
    "the peer drops the ports of jobs": make_drop_fault(f"iifname eth1 {PORTS} drop"),
    "the peer drops all that comes in": make_drop_fault("iifname eth1 drop"),
    "the peer drops its answers": make_drop_fault(
        "oifname eth1 tcp sport 50000-54095 drop", "output"
    ),
    "the peer rejects (host prohibited)": make_drop_fault(
        f"iifname eth1 {PORTS} reject with icmp type host-prohibited"
    ),
    "the peer rejects (nft's and iptables' default)": make_drop_fault(
        f"iifname eth1 {PORTS} reject"
    ),
    "a switch drops large packets": replace(
        make_drop_fault("iifname eth1 ip length > 1400 drop"),
        code="HC-162",
        words="packets of 1500 bytes",
    ),
    "firewalld of the peer has forgotten this node": HealthFault(
        "HC-161",
        "ubuntu1 (",
        "firewall-cmd -q --ipset=fullmesh-peers4 --remove-entry=$EL1",
        "firewall-cmd -q --ipset=fullmesh-peers4 --add-entry=$EL1",
        where="ubuntu1",
    ),
    "the peer's firewall panics": HealthFault(
        "HC-161",
        "ubuntu1 (",
        "firewall-cmd -q --panic-on",
        "firewall-cmd -q --panic-off",
        where="ubuntu1",
    ),
    "the route to the cluster is removed": HealthFault(
        "HC-161",
        "ubuntu1 (",
        "ip route del $NETWORK dev eth1",
        "ip route add $NETWORK dev eth1 src $EL1 metric 100",
    ),
    "a blackhole route to the peer": make_route_fault("route {} blackhole $UBUNTU1/32"),
    "an unreachable route to the peer": make_route_fault("route {} unreachable $UBUNTU1/32"),
    "a policy rule that prohibits the peer": make_route_fault("rule {} to $UBUNTU1 prohibit"),
    "a route over the wrong interface": make_route_fault("route {} $UBUNTU1/32 dev eth0"),
    "a wrong neighbor entry": HealthFault(
        "HC-161",
        "ubuntu1 (",
        "ip neigh replace $UBUNTU1 lladdr 02:00:00:00:00:99 dev eth1 nud permanent",
        "ip neigh del $UBUNTU1 dev eth1",
    ),
    "this node's interface is down": HealthFault(
        "HC-111", "eth1", "ip link set eth1 down", UP["el1"]
    ),
    "the peer's interface is down": HealthFault(
        "HC-161", "ubuntu1 (", "ip link set eth1 down", UP["ubuntu1"], where="ubuntu1"
    ),
    "this node's cable": HealthFault(
        "HC-111", "eth1", "ip link set $CABLE_EL1 down", "ip link set $CABLE_EL1 up", where="here"
    ),
    "the peer's cable, or the peer is off": HealthFault(
        "HC-161",
        "ubuntu1 (",
        "ip link set $CABLE_UBUNTU1 down",
        "ip link set $CABLE_UBUNTU1 up",
        where="here",
    ),
    "the peer's MTU": HealthFault(
        "HC-162",
        "packets of 1500 bytes",
        "ip link set eth1 mtu 1400",
        "ip link set eth1 mtu 1500",
        where="ubuntu1",
    ),
    "the address is removed": HealthFault(
        "HC-112",
        "no interface has the cluster address",
        "ip address del $EL1/24 dev eth1",
        UP["el1"],
    ),
    "a host of the job that does not exist": HealthFault("HC-161", "ghost7 (", job="el1,ghost7"),
    "half duplex": make_file_fault(
        "HC-113", "eth1 runs at half duplex", "/sys/class/net/eth1/duplex", "half"
    ),
    "the RDMA port is down": HealthFault(
        "HC-114",
        "mlx5_0 on eth1 is in state 1: DOWN",
        "cd /sys/class/infiniband/mlx5_0; mkdir -p device/net/eth1; echo 1: DOWN > ports/1/state",
        "cd /sys/class/infiniband/mlx5_0; rmdir device/net/eth1; echo 4: ACTIVE > ports/1/state",
    ),
    # --- GPUs (STAND-INS)
    "a GPU has left the bus": make_gpu_fault("HC-101", "without 0000:43:00.0", "pci=1", "gpus=1"),
    "a GPU has fallen off the bus": make_gpu_fault("HC-102", "nvidia-smi", "1.lost=1"),
    "the driver shows one GPU": make_gpu_fault(
        "HC-102", "1 of 2 GPUs, without 0000:43:00.0", "gpus=1"
    ),
    "memory errors": make_gpu_fault("HC-103", "0000:43:00.0 counts 3", "1.ecc_lost=3"),
    "a row remapping has failed": make_gpu_fault("HC-103", "0000:1b:00.0", "0.remap_failed=1"),
    "a row remapping is pending": make_gpu_fault("HC-103", "0000:43:00.0", "1.remap_pending=1"),
    "another driver for the library than for the kernel": make_gpu_fault(
        "HC-104", "mismatch", "error=18"
    ),
    "a driver update without a restart": HealthFault(
        "HC-104",
        "590.11.01 is installed",
        ": > /usr/lib64/libnvidia-ml.so.590.11.01",
        "rm /usr/lib64/libnvidia-ml.so.590.11.01",
    ),
    "fewer PCIe lanes": HealthFault(
        "HC-105",
        "4 of 16 PCIe lanes",
        "cd /sys/bus/pci/devices/0000:1b:00.0; echo 4 > current_link_width; echo 16 > max_link_width",
        "rm /sys/bus/pci/devices/0000:1b:00.0/*_link_width",
    ),
    "the fabric manager has stopped": make_gpu_fault("HC-106", "is inactive", "fm=inactive"),
    "nvidia-smi hangs in the kernel": replace(
        make_stalled_mount_fault("never", HANGING_SMI),
        code="HC-107",
        words="does not answer a program",
        undo="umount /usr/bin/nvidia-smi; pkill -KILL -f '^python3 /run/stalled.py'; umount -l /home/data",
    ),
    "Xid 79": make_gpu_fault(
        "HC-108", "Xid (PCI:0000:43:00): 79", "1.xid=79, GPU has fallen off the bus."
    ),
    "Xid 119": make_gpu_fault(
        "HC-108", "Xid (PCI:0000:1b:00): 119", "0.xid=119, Timeout after 6s of GSP"
    ),
    "an NVSwitch has a fatal error": make_gpu_fault(
        "HC-108", "24007, Fatal", "sxid=24007, Fatal, Link 44"
    ),
    # --- limits, clock, disks
    "no more threads": HealthFault(
        "HC-121",
        "threads (kernel.threads-max)",
        "cp /proc/sys/kernel/threads-max /run/kept; echo 50 > /proc/sys/kernel/threads-max",
        "cat /run/kept > /proc/sys/kernel/threads-max",
    ),
    "no more open files": HealthFault(
        "HC-121",
        "open files (fs.file-max)",
        "printf '990\\t0\\t1000\\n' > /run/nr; mount --bind /run/nr /proc/sys/fs/file-nr",
        "umount /proc/sys/fs/file-nr",
    ),
    "no memory": make_file_fault(
        "HC-122", "97 MiB of memory", "/proc/meminfo", "MemAvailable:     100000 kB"
    ),
    "the time server is silent": HealthFault(
        "HC-131",
        "not synchronized (chronyc)",
        "nft 'table inet broken { chain c { type filter hook output priority -300; udp dport 123 drop; }; }';"
        " systemctl restart chrony",
        "nft delete table inet broken; systemctl restart chrony; chronyc waitsync 20 0 0 1 >/dev/null",
        where="ubuntu1",
        seen_from="ubuntu1",
    ),
    "the clock jumps": make_file_fault(
        "HC-132",
        "off by 37.000 s",
        "/usr/bin/chronyc",
        "#!/bin/sh\necho 0A4E020B,10.78.2.11,11,1795831356.7,37.0,0.0,0.0,0,0,0,0,0,0,Normal",
        "0755",
    ),
    "a full disk": make_mount_fault(
        "HC-141", "has 0 MiB left of 1 MiB", "size=1m", "cat /dev/zero > /tmp/full || true"
    ),
    "no inodes": make_mount_fault(
        "HC-141", "inodes", "size=9m,nr_inodes=5", "touch /tmp/1 /tmp/2 /tmp/3 /tmp/4"
    ),
    "full shared memory": HealthFault(
        "HC-141",
        "has 0 MiB left of 62 MiB",
        "cat /dev/zero > /dev/shm/full || true",
        "rm /dev/shm/full",
    ),
    "a read-only file system": make_mount_fault("HC-142", "is mounted read-only", "ro"),
    "a server of a mount is silent": make_stalled_mount_fault(
        "0", "pkill -STOP -f '^python3 /run/stalled.py'"
    ),
    "a server of a mount is silent, and no signal ends a program": make_stalled_mount_fault(
        "never", ":"
    ),
    "a server of a mount has gone": make_stalled_mount_fault(
        "0", "pkill -KILL -f '^python3 /run/stalled.py'"
    ),
    # --- drift from the manifest
    "a sysctl": HealthFault(
        DRIFT,
        "net.ipv4.tcp_fin_timeout",
        "sysctl -qw net.ipv4.tcp_fin_timeout=60",
        "sysctl -qw net.ipv4.tcp_fin_timeout=30",
    ),
    "a file": HealthFault(
        DRIFT,
        "/etc/fullmesh/env",
        "cp -p /etc/fullmesh/env /run/env; echo X=1 >> /etc/fullmesh/env",
        "cp -p /run/env /etc/fullmesh/env",
    ),
    "the firewall has stopped": HealthFault(
        DRIFT, "firewalld.service", "systemctl stop firewalld", "systemctl start firewalld"
    ),
}


def run_fault_script(fault: HealthFault, script: str, nodes: dict[str, Node]) -> None:
    """Run a script of a fault at its place."""
    first, second = nodes["el1"], nodes["ubuntu1"]
    values = {
        "EL1": first.address,
        "UBUNTU1": second.address,
        "NETWORK": first.address.rpartition(".")[0] + ".0/24",
        "CABLE_EL1": first.cable,
        "CABLE_UBUNTU1": second.cable,
    }
    script = "\n".join([*(f"{name}={text}" for name, text in values.items()), script])
    if fault.where == "here":
        run_shell(["env"], script, check=True, where="this machine")
    else:
        nodes[fault.where].on(script)


def set_gpus(settings: tuple[str, ...]) -> None:
    read_output("./fullmesh", "lab", "gpus", "--name", LAB, "el1", *settings)


@contextmanager
def break_nodes(fault: HealthFault, nodes: dict[str, Node]) -> Iterator[None]:
    """Make a fault, and remove it."""
    try:
        if fault.gpus:
            set_gpus(fault.gpus)
        run_fault_script(fault, fault.make, nodes)
        yield
    finally:
        run_fault_script(fault, fault.undo, nodes)
        if fault.gpus:
            set_gpus(GPUS)


def configure_nodes(*more: str, options: tuple[str, ...] = SETTINGS) -> Done:
    """Configure the nodes."""
    known = json.loads(read_output("./fullmesh", "lab", "status", "--json", "--name", LAB))
    done = site(*options, *more, inventory=known["inventory"].rsplit("/", 1)[0])
    expect_success(done)
    return done


def read_manifests(nodes: dict[str, Node]) -> list[dict[str, Any]]:
    """Return the manifest of each node."""
    return [json.loads(node.on("cat /var/lib/fullmesh/manifest.json")) for node in nodes.values()]


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, Node]]:
    """Two configured nodes with simulated GPUs, and STAND-INS for Slurm's programs."""
    if not KEPT:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB, "--nodes", "2").code == 0
    for name in ("el1", "ubuntu1"):
        read_output("./fullmesh", "lab", "gpus", "--name", LAB, name, *GPUS)
    if not KEPT:
        configure_nodes()
    found = list_lab_nodes(LAB)
    for node in found.values():
        node.on("systemctl stop fullmesh-health.timer; mkdir -p /opt/slurm/bin")
        node.on(f"cat > /opt/slurm/bin/sinfo <<'END'\n{SINFO}\nEND")
        node.on(f"cat > /opt/slurm/bin/scontrol <<'END'\n{SCONTROL}\nEND")
        node.on("chmod 0755 /opt/slurm/bin/*")
        node.on("systemctl start fullmesh-health.timer")
    yield found
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    if KEPT:
        for node in found.values():
            node.on("rm -r /opt/slurm")
    else:
        run("./fullmesh", "lab", "down", "--name", LAB)


def run_check(node: Node, job: str) -> dict[str, Any]:
    """Run the check as for a job. Its JSON, with its exit status and the line of a second run."""
    command = f"SLURM_JOB_NODELIST={job} {CHECK}"
    line = node.on(f"status=0; {command} || status=$?; echo $status").splitlines()
    document: dict[str, Any] = json.loads(node.on(f"{command} --json", check=False))
    return {**document, "line": line[0], "exit": [int(line[1]), document["status"]]}


def list_codes(document: dict[str, Any]) -> list[str]:
    """The codes in the order of the line."""
    return [one["code"] for found in document["checks"].values() for one in found["findings"]]


def wait_until_fit(node: Node) -> None:
    """A repaired node is fit, in all ways in which it is asked."""
    end = time.monotonic() + WITHIN
    while (found := run_check(node, "el1,ubuntu1"))["exit"] != [0, 0]:
        assert time.monotonic() < end, found["line"]
        time.sleep(0.5)
    assert " is fit for jobs (" in found["line"]
    assert found["fit"] is True


def test_a_healthy_pair_is_fit(nodes: dict[str, Node]) -> None:
    for node in nodes.values():
        wait_until_fit(node)
        prolog = node.on(
            f": > {CALLS}; SLURM_JOB_NODELIST=el1,ubuntu1 /etc/fullmesh/slurm/prolog; cat {CALLS}"
        )
        assert " is fit for jobs (" in prolog
        assert "DRAIN" not in prolog


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_until_it_is_removed(name: str, nodes: dict[str, Node]) -> None:
    fault = FAULTS[name]
    node = nodes[fault.seen_from]
    wait_until_fit(node)
    with break_nodes(fault, nodes):
        found = run_check(node, fault.job)
        assert found["exit"] == [1, 1], found["line"]
        assert list_codes(found)[0] == fault.code, found["line"]
        assert f" is not fit for jobs: [{fault.code}] " in found["line"]
        assert fault.words in found["line"].partition("Fix: ")[0]
        assert found["seconds"] < LONGEST
        rows.append(f"{name}\t{fault.code}\t{found['seconds']:.2f}\t{found['cpu_seconds']:.2f}")
        if fault.job == "el1,ubuntu1":  # the timer does not know the job
            see_timer(node, fault)
        see_prolog(node, fault)
    wait_until_fit(node)
    history = node.on(f"{RECORD}; /opt/fullmesh/bin/fullmesh-health history")
    assert history.startswith("fit since ")


def see_timer(node: Node, fault: HealthFault) -> None:
    """The timer's unit ends, and records the fault."""
    begun = time.monotonic()
    said = node.on(f"{RECORD}; /opt/fullmesh/bin/fullmesh-health history")
    assert time.monotonic() - begun < LONGEST_UNIT
    assert said.startswith("not fit since ")
    assert f": [{fault.code}] " in said.splitlines()[1]


def see_prolog(node: Node, fault: HealthFault) -> None:
    """The prolog refuses the job and drains the node with the cause. Drift drains no node."""
    said = node.on(
        f": > {CALLS}; SLURM_JOB_NODELIST={fault.job} /etc/fullmesh/slurm/prolog || echo refused; cat {CALLS}",
    )
    drained = f"State=DRAIN Reason=fullmesh: [{fault.code}] " in said
    assert ("refused" in said.splitlines()) == drained == (fault.code != DRIFT), said


def expect_no_drift(nodes: dict[str, Node]) -> None:
    """The check compares the nodes with their manifests, however busy they are, and finds no difference."""
    for node in nodes.values():
        end = time.monotonic() + WITHIN
        while (found := run_check(node, "el1,ubuntu1")["checks"]["drift"])["state"] == "unknown":
            assert time.monotonic() < end, found
        assert found["state"] == "ok", found


@pytest.mark.parametrize("role", PARTS)
def test_a_run_of_one_role_is_no_drift(role: str, nodes: dict[str, Node]) -> None:
    before = read_manifests(nodes)
    configure_nodes("--tags", role, "-e", json.dumps(PARTS[role]), options=VALUES)
    after = read_manifests(nodes)
    assert all(one["state"] != two["state"] for one, two in zip(before, after, strict=True))
    expect_no_drift(nodes)


def test_a_role_that_removes_its_files_is_no_drift(nodes: dict[str, Node]) -> None:
    configure_nodes(
        "--tags", "node_health", options=(*VALUES, "-e", "node_health_check_jobs=false")
    )
    gate = "/etc/systemd/system/fullmesh-job@.service.d/fullmesh-health.conf"
    assert not [one for one in read_manifests(nodes) if gate in one["state"]["file"]]
    expect_no_drift(nodes)


def test_after_runs_of_some_roles_the_next_run_configures_all(nodes: dict[str, Node]) -> None:
    assert [one["digest"] for one in read_manifests(nodes)] == [""] * len(nodes)
    assert re.search(r"^el1 .* changed=[1-9]", configure_nodes().output, re.MULTILINE)
    # this run left out torch and NCCL, so it does not make the nodes count as configured
    assert [one["digest"] for one in read_manifests(nodes)] == [""] * len(nodes)
    expect_no_drift(nodes)
