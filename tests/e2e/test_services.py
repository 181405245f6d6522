"""Run Ray, JAX, Accelerate and DeepSpeed with the firewall on.

The plan decides their ports.

The packages come from a lock with hashes (locks/services.txt), downloaded once on this machine for
both nodes. DeepSpeed, which has a source package only, is built here. No node connects to another
host. The nodes count packets that leave by a network other than the cluster's.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from plays import Done, read_output, run

from devtools.lab import lifecycle
from devtools.lab.paths import find
from fullmesh.settings import ROOT

from .conftest import COUNT_PACKETS, load_latest_result, site

LAB = "e2e-services"
LOCK = "tests/e2e/locks/services.txt"
TREE = ROOT / ".fullmesh" / f"services-{hashlib.sha256((ROOT / LOCK).read_bytes()).hexdigest()[:8]}"
PLACE = "/opt/ray/lib/python3.11/site-packages"
SERVICES: list[Any] = [
    "ray",
    "jax",
    {
        "name": "inference",
        "ports": ["8000/tcp", "9000-9010/udp"],
        "reach": "everybody",
        "nodes": ["el1"],
    },
    {"name": "panel", "ports": {"web": 8443}, "reach": "controllers"},
]
ACCELERATE = "FULLMESH_ACCELERATE=/opt/ray/bin/accelerate /opt/fullmesh/bin/fullmesh-accelerate"
# Of Accelerate's own tests, the one of all collectives. test_script.py needs a folder that all
# ranks share.
OWN_TEST = f"{PLACE}/accelerate/test_utils/scripts/test_ops.py"
# Its own launcher on every node, with the plan's hostfile. Without --no_local_rank it passes
# --local_rank to the script.
OWN_DEEPSPEED = (
    "set -a; . /etc/fullmesh/env; set +a; /opt/ray/bin/deepspeed --hostfile /etc/fullmesh/hostfile --no_ssh"
    " --no_local_rank --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT"
)
DEEPSPEED = f"PYTHONPATH={PLACE} /opt/fullmesh/bin/fullmesh-torchrun"
# From one node, with the cluster's ssh key, as the account of the role node_ssh.
FROM_ONE = (
    "cd /srv; runuser -u fullmesh -- env FULLMESH_DEEPSPEED=/opt/ray/bin/deepspeed NCCL_DEBUG=TRACE"
    " /opt/fullmesh/bin/fullmesh-deepspeed"
)
# Programs that pip makes: name -> the module with main().
PROGRAMS = {
    "ray": "ray.scripts.scripts",
    "accelerate": "accelerate.commands.accelerate_cli",
    "deepspeed": "deepspeed.launcher.runner",
}
RAY = "FULLMESH_RAY=/opt/ray/bin/ray /opt/fullmesh/bin/fullmesh-ray"
JAX = "FULLMESH_PYTHON=/opt/ray/bin/python /opt/fullmesh/bin/fullmesh-jax"
SMALL = "--num-cpus=2 --object-store-memory=80000000"
# open, refused (the packet arrived, but no process listens) or shut (silence, or an ICMP answer of
# a firewall)
KNOCK = """
import socket, sys
address, *ports = sys.argv[1:]
for port in ports:
    try:
        socket.create_connection((address, int(port)), 3).close()
        said = "open"
    except ConnectionRefusedError:
        said = "refused"
    except OSError:
        said = "shut"
    print(port, said)
"""
LISTEN = """
import socket, sys, time
kept = [socket.create_server(("0.0.0.0", int(port))) for port in sys.argv[1:]]
time.sleep(1800)
"""
# UDP answers only if a process listens, so the server uses the service's port and the port after
# it.
ECHO = """
import select, socket
kept = []
for port in (9000, 9010, 9011):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("0.0.0.0", port))
    kept.append(one)
while True:
    for one in select.select(kept, [], [])[0]:
        said, peer = one.recvfrom(64)
        one.sendto(said, peer)
"""
CALL = """
import socket, sys
for port in sys.argv[2:]:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(3)
    one.connect((sys.argv[1], int(port)))
    one.send(b"x")
    try:
        print(port, one.recv(64) == b"x")
    except OSError:
        print(port, "silent")
"""


class Lab:
    """Two nodes with services in their plan."""

    def __init__(self, name: str, services: list[Any], *words: str) -> None:
        self.name = name
        run("./fullmesh", "lab", "down", "--name", name)
        assert run("./fullmesh", "lab", "up", "--name", name, *words).code == 0
        made = yaml.safe_load(lifecycle.inventory_path(find(), name).read_text())
        self.hosts: dict[str, dict[str, str]] = made["all"]["children"]["torch_nodes"]["hosts"]
        self.names = list(self.hosts)
        self.inventory = ROOT / ".fullmesh" / name
        self.made = made
        self.serve(services)

    def serve(self, services: list[Any]) -> None:
        """Write an inventory whose plan has these services."""
        self.inventory.mkdir(parents=True, exist_ok=True)
        common = self.inventory / "group_vars"
        if not common.is_symlink():
            common.symlink_to(ROOT / "inventory/lab/group_vars")
        self.made["all"]["vars"] |= {"fullmesh_services": services, "node_ssh_manage": True}
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump(self.made))

    def site(self, *more: str) -> Done:
        """Run ``./fullmesh site``, as a user does."""
        return site(*more, inventory=str(self.inventory))

    def on(self, name: str, command: str, seconds: float = 240) -> str:
        """Run a shell command on a node. Return its output."""
        return read_output(
            "./fullmesh",
            "lab",
            "exec",
            "--name",
            self.name,
            name,
            "--",
            "sh",
            "-c",
            command,
            seconds=seconds,
        )

    def address(self, name: str) -> str:
        """Return the cluster address of a node."""
        return self.hosts[name]["fullmesh_address"].partition("/")[0]

    def knock(self, name: str, target: str, *ports: int) -> dict[int, str]:
        """Return the state of another node's ports, seen from a node."""
        words = " ".join(map(str, ports))
        output = self.on(name, f"python3 -c '{KNOCK}' {self.address(target)} {words}")
        return {int(line.split()[0]): line.split()[1] for line in output.splitlines()}

    def outside(self, target: str, *ports: int) -> dict[int, str]:
        """Return the state of a node's ports, seen from the controller, which is no peer."""
        words = [sys.executable, "-c", KNOCK, self.hosts[target]["ansible_host"], *map(str, ports)]
        output = read_output(*words)
        return {int(line.split()[0]): line.split()[1] for line in output.splitlines()}

    def bring(self) -> None:
        """Install Ray, JAX, Accelerate and DeepSpeed on both nodes, next to torch."""
        if not (TREE / "ray").is_dir():
            words = ["uv", "pip", "install", "-q", "--require-hashes", "--no-deps", "--target"]
            # the build requirements of DeepSpeed come from the lock, too
            more = ["--build-constraints", LOCK, "--python-version", "3.11", "-r", LOCK]
            assert run(*words, str(TREE), *more).code == 0
        examples = "-C examples ray_gloo.py jax_psum.py accelerate_train.py deepspeed_train.py"
        programs = "".join(
            f"printf '#!/opt/ray/bin/python\\nfrom {module} import main\\nmain()\\n' > /opt/ray/bin/{program}\n"
            f"chmod 755 /opt/ray/bin/{program}\n"
            for program, module in PROGRAMS.items()
        )
        for name in self.names:
            self.on(name, "python3.11 -m venv --without-pip /opt/ray")
            for source, target in (
                (f"--exclude=tests --exclude=dashboard/client -C {TREE} .", PLACE),
                (examples, "/root"),
            ):
                pack = f"tar -cf - {source} | ./fullmesh lab exec --name {self.name} {name} -- tar -C {target} -xf -"
                subprocess.run(["/bin/sh", "-c", pack], cwd=ROOT, check=True, timeout=300)
            path = "/opt/fullmesh/venv/lib/python3.11/site-packages"
            self.on(name, f"echo {path} > {PLACE}/torch.pth\n{programs}")

    def pdsh(self, name: str) -> None:
        """Install pdsh on a node. The lab's mirrors do not have it."""
        debs = self.inventory / "debs"
        debs.mkdir(exist_ok=True)
        fetch = "apt-get -q update && apt-get -q download pdsh libgenders0"
        subprocess.run(["/bin/sh", "-c", fetch], cwd=debs, check=True, timeout=300)
        for deb in debs.glob("*.deb"):
            pack = f"dpkg-deb --fsys-tarfile {deb} | ./fullmesh lab exec --name {self.name} {name} -- tar -C / -xf -"
            subprocess.run(["/bin/sh", "-c", pack], cwd=ROOT, check=True, timeout=300)

    def count(self) -> None:
        """Start to count the packets that leave by another network."""
        for name in self.names:
            self.on(name, COUNT_PACKETS)

    def left(self) -> list[str]:
        """Return the number of counted packets of each node."""
        found = [self.on(name, "nft list counter inet lab_test left") for name in self.names]
        for name in self.names:
            self.on(name, "nft delete table inet lab_test")
        return [
            line.strip() for output in found for line in output.splitlines() if "packets" in line
        ]

    def explained(self, log: str) -> set[str]:
        """Return the codes that explain-log finds in a node's output."""
        path = self.inventory / "said.log"
        path.write_text(log)
        done = run("./fullmesh", "explain-log", "--json", str(path))
        document = json.loads(done.output[done.output.index("{") : done.output.rindex("}") + 1])
        return {one["code"] for one in [*document["findings"], *document["harmless"]]}

    def together(self, commands: dict[str, str]) -> dict[str, str]:
        """Run a command on each node at the same time."""
        with ThreadPoolExecutor() as pool:
            futures = {name: pool.submit(self.on, name, one) for name, one in commands.items()}
            return {name: one.result() for name, one in futures.items()}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    made = Lab(LAB, SERVICES)
    done = made.site("--skip-tags", "verify")
    assert done.code == 0, done.output[-3000:]
    made.bring()
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_ports_are_open_to_allowed_clients_only(lab: Lab) -> None:
    el, ubuntu = lab.names
    for name in lab.names:
        ports = "6379 6700 10002 13999 8000 8443 7777"
        lab.on(name, f"systemd-run -q --unit=served python3 -c '{LISTEN}' {ports}; sleep 2")
    # Only the master's node has gcs, and each node has a range. 14000 is the first port after it.
    assert lab.knock(ubuntu, el, 6379, 6700, 10002, 13999, 12000, 14000) == {
        6379: "open",
        6700: "open",
        10002: "open",
        13999: "open",
        12000: "refused",
        14000: "shut",
    }
    assert lab.knock(el, ubuntu, 6379, 6700, 8000, 8443, 7777) == {
        6379: "shut",
        6700: "open",
        8000: "shut",
        8443: "shut",
        7777: "shut",
    }
    assert lab.outside(el, 6379, 6700, 10002, 8000, 8443, 7777) == {
        6379: "shut",
        6700: "shut",
        10002: "shut",
        8000: "open",
        8443: "open",
        7777: "shut",
    }
    lab.on(el, f"systemd-run -q --unit=echo python3 -c '{ECHO}'; sleep 2")
    called = lab.on(ubuntu, f"python3 -c '{CALL}' {lab.address(el)} 9000 9010 9011")
    assert called.split() == ["9000", "True", "9010", "True", "9011", "silent"]
    lab.on(el, "systemctl stop echo")
    # the probe queries the listeners itself and finds nothing wrong
    verified = run("./fullmesh", "verify", "-i", str(lab.inventory))
    assert verified.code == 0, verified.output[-3000:]
    [links] = [one for one in load_latest_result()["rungs"] if one["id"] == "L2"]
    assert "opened and not tried: inference 9000-9010/udp" in links["details"]["notes"]
    for name in lab.names:
        lab.on(name, "systemctl stop served")


def test_a_second_run_is_unchanged_and_restores_a_lost_port(lab: Lab) -> None:
    el, ubuntu = lab.names
    again = lab.site()
    assert (again.code, set(again.changed().values())) == (0, {0})
    rule = '"rule family=ipv4 source ipset=fullmesh-peers4 port port=6379 protocol=tcp accept"'
    lab.on(el, f"firewall-cmd -q --policy=fullmesh-job --remove-rich-rule={rule}")
    assert lab.knock(ubuntu, el, 6379) == {6379: "shut"}
    output = run("./fullmesh", "diagnose", "-i", str(lab.inventory))
    assert output.code == 1
    assert "6379/tcp (ray gcs)" in output.output
    assert lab.site().code == 0
    assert lab.knock(ubuntu, el, 6379) == {6379: "refused"}


def test_ray_and_jax_run_on_two_nodes_over_the_cluster_network(lab: Lab) -> None:
    el, ubuntu = lab.names
    lab.count()
    # The worker starts first. It waits and joins a head that starts later.
    started = lab.together(
        {ubuntu: f"{RAY} start {SMALL} 2>&1", el: f"sleep 15; {RAY} start {SMALL} 2>&1"}
    )
    assert "waiting for the head at " in started[ubuntu]
    assert "2 nodes, sums and objects as expected" in lab.on(
        el, "/opt/ray/bin/python /root/ray_gloo.py"
    )
    # the same from the other node, on a port of the same store
    assert "2 nodes, sums and objects as expected" in lab.on(
        ubuntu, "/opt/ray/bin/python /root/ray_gloo.py"
    )
    # Restart the head. Nodes that joined the old head restart, and both form a cluster again.
    lab.on(el, f"{RAY} stop 2>&1; {RAY} start {SMALL} 2>&1")
    lab.on(ubuntu, f"{RAY} stop 2>&1; {RAY} start {SMALL} 2>&1")
    assert "2 nodes, sums and objects as expected" in lab.on(
        el, "/opt/ray/bin/python /root/ray_gloo.py"
    )
    taken = lab.on(el, f"{RAY} start {SMALL} 2>&1 || true")
    assert "[LA-119]" in taken
    assert lab.left() == ["packets 0 bytes 0"] * 2
    # the probe queries Ray itself
    verified = run("./fullmesh", "verify", "-i", str(lab.inventory))
    assert verified.code == 0, verified.output[-3000:]
    lab.together(dict.fromkeys(lab.names, f"{RAY} stop 2>&1"))

    lab.count()
    summed = lab.together(dict.fromkeys(lab.names, f"{JAX} /root/jax_psum.py 2>&1"))
    assert all("2 devices, the sum is as expected" in output for output in summed.values())
    assert lab.left() == ["packets 0 bytes 0"] * 2


@pytest.mark.parametrize(
    ("words", "script", "last"),
    [
        ("", "/root/accelerate_train.py", "accelerate: 2 ranks on cpu, loss "),
        (
            "--c10d --mixed_precision bf16",
            "/root/accelerate_train.py",
            "accelerate: 2 ranks on cpu, ",
        ),
        ("", OWN_TEST, "testing sending tensors across devices"),
    ],
    ids=["static", "c10d", "its own test"],
)
def test_accelerate_trains_on_two_nodes_over_the_cluster_network(
    lab: Lab, words: str, script: str, last: str
) -> None:
    lab.count()
    output = lab.together(dict.fromkeys(lab.names, f"{ACCELERATE} {words} {script} 2>&1"))
    assert last in "".join(output.values())
    assert lab.left() == ["packets 0 bytes 0"] * 2


def test_accelerates_own_launcher_reads_the_plans_file(lab: Lab) -> None:
    launch = "/opt/ray/bin/accelerate launch --config_file /root/accelerate.yaml"
    start = f"{ACCELERATE} config > /root/accelerate.yaml; . /etc/fullmesh/env; export GLOO_SOCKET_IFNAME"
    job = f"{start}; ACCELERATE_USE_CPU=true {launch} /root/accelerate_train.py 2>&1"
    output = lab.together(dict.fromkeys(lab.names, job))
    assert "accelerate: 2 ranks on cpu, loss " in "".join(output.values())


@pytest.mark.parametrize("start", [DEEPSPEED, OWN_DEEPSPEED], ids=["torchrun", "its own"])
def test_deepspeed_trains_alone_and_over_the_cluster_network(lab: Lab, start: str) -> None:
    lab.count()
    output = lab.together(dict.fromkeys(lab.names, f"{start} /root/deepspeed_train.py 2>&1"))
    assert "deepspeed: 2 ranks on cpu, weights as alone, loss " in "".join(output.values())
    assert lab.left() == ["packets 0 bytes 0"] * 2


def test_deepspeed_starts_all_nodes_from_one_over_pdsh(lab: Lab) -> None:
    """Use Debian's pdsh. The other node gets an argument and a variable as they were typed."""
    el, ubuntu = lab.names
    lab.pdsh(el)
    probe = (
        "import os, sys; names = 'RANK', 'NCCL_DEBUG', 'FULLMESH_ADDRESS', 'GLOO_SOCKET_IFNAME';"
        " print('seen', *map(os.environ.get, names), sys.argv[1:])"
    )
    for name in lab.names:
        lab.on(name, f'cp /root/deepspeed_train.py /srv; echo "{probe}" > /srv/seen.py')
    output = lab.on(el, f"{FROM_ONE} seen.py 'two words; $HOME' '100%h' 2>&1")
    for rank, name in enumerate(lab.names):
        words = "['two words; $HOME', '100%h']"
        assert f"seen {rank} TRACE {lab.address(name)} eth1 {words}" in output
    only = lab.on(el, f"{FROM_ONE} --nodes={ubuntu} seen.py 2>&1")
    assert f"seen 0 TRACE {lab.address(ubuntu)} eth1 []" in only
    assert f"{lab.address(el)} eth1" not in only
    lab.count()
    output = lab.on(el, f"{FROM_ONE} deepspeed_train.py 2>&1")
    assert "deepspeed: 2 ranks on cpu, weights as alone, loss " in output
    assert lab.left() == ["packets 0 bytes 0"] * 2


SHUT = (
    "nft 'add table inet fault; add chain inet fault input {{ type filter hook input priority 0; }}'; "
    "nft add rule inet fault input iifname eth1 tcp dport {} drop"
)
OPEN = "nft delete table inet fault"
# Debian's own line on every node: each rank announces an address at which its peers reach
# themselves.
TO_ITSELF = (
    'cp /etc/hosts /run/hosts; sed "/$(hostname)/d" /run/hosts > /etc/hosts;'
    ' echo "127.0.1.1 $(hostname)" >> /etc/hosts'
)
OLDER = f"sed -i.kept s/2.60.0/2.59.0/ {PLACE}/ray/_version.py"
NEWER = f"mv {PLACE}/ray/_version.py.kept {PLACE}/ray/_version.py"


def test_ray_failures_are_named_from_its_messages(lab: Lab) -> None:
    """Provoke a blocked port, a second head, another version, the wrong interface, a small /dev/shm."""
    el, ubuntu = lab.names
    other_interface = lab.hosts[ubuntu]["ansible_host"]
    plain = "RAY_USAGE_STATS_ENABLED=0 /opt/ray/bin/ray start"
    join = f"{plain} --address={lab.address(el)}:6379"
    own = f"--node-ip-address={lab.address(ubuntu)}"
    lab.on(el, f"{RAY} start {SMALL} 2>&1")
    head = f"{plain} --head --node-ip-address={lab.address(el)} --port=6379"
    assert lab.explained(lab.on(el, f"{head} --include-dashboard=false 2>&1 || true")) == {"LG-680"}

    lab.on(ubuntu, OLDER)
    output = lab.on(ubuntu, f"{RAY} start {SMALL} 2>&1 || true")
    lab.on(ubuntu, NEWER)
    assert lab.explained(output) == {"LG-604"}

    # a container's /dev/shm has 62 MB, and Ray wants a third of the memory
    output = lab.on(ubuntu, f"{RAY} start --num-cpus=2 2>&1; {RAY} stop 2>&1")
    assert lab.explained(output) == {"LG-960"}

    # It joins, because it can reach the head. The head cannot reach the address that it announced.
    lab.on(ubuntu, f"{join} --node-ip-address={other_interface} {SMALL} 2>&1")
    log = "/tmp/ray/session_latest/logs/gcs_server.out"  # noqa: S108 (Ray's own folder)
    lab.on(el, f"for _ in $(seq 60); do grep -q 'marked dead' {log} && break; sleep 1; done")
    assert "LG-681" in lab.explained(lab.on(el, f"cat {log}"))
    lab.on(ubuntu, "/opt/ray/bin/ray stop -f 2>&1")

    lab.on(el, SHUT.format(6379))
    # it would retry for minutes
    output = lab.on(ubuntu, f"timeout -s KILL 60 env {join} {own} {SMALL} 2>&1 || true")
    lab.on(el, OPEN)
    assert "LG-601" in lab.explained(output)
    lab.on(el, f"{RAY} stop 2>&1")


def test_jax_failures_are_named_from_its_messages(lab: Lab) -> None:
    """Provoke host names that resolve to loopback, and a blocked port, which the watch reports first."""
    el, ubuntu = lab.names
    # it catches SIGTERM
    start = f"timeout -s KILL 75 env {JAX}"
    lab.together(dict.fromkeys(lab.names, TO_ITSELF))
    output = lab.together(dict.fromkeys(lab.names, f"{start} /root/jax_psum.py 2>&1 || true"))
    lab.together(dict.fromkeys(lab.names, "cat /run/hosts > /etc/hosts"))
    assert lab.explained("".join(output.values())) == {"LG-106"}

    soon = "sed 's/initialize(/initialize(initialization_timeout=30,/' /root/jax_psum.py > /root/jax_soon.py"
    watch = "/opt/fullmesh/bin/fullmesh-watch --within 8 --stalled 0 -- env"
    lab.on(el, SHUT.format(8482))
    job = f"{soon}; {watch} {JAX} /root/jax_soon.py 2>&1 || true"
    output = lab.together(dict.fromkeys(lab.names, job))
    lab.on(el, OPEN)
    assert lab.explained("".join(output.values())) == {"LG-611"}
    # the watch reports it earlier, while the job waits
    assert f"[WA-101] {ubuntu} " in output[el]
    assert "[WA-102] process 1 of JAX" in output[ubuntu]
    assert f"{lab.address(el)}:8482 ({el}, jax coordinator): dropped" in output[ubuntu]


def test_vllm_and_sglang_ports_reach_a_stand_in_listener(lab: Lab) -> None:
    """Check the ports with stand-ins, because the real programs need a GPU.

    Controllers may use the APIs. Only peers may use the other ports, most of which are open on the
    master only.
    """
    el, ubuntu = lab.names
    lab.serve(["vllm", "sglang"])
    done = lab.site("--tags", "firewall,tuning")
    assert done.code == 0, done.output[-3000:]
    apis, every = [8000, 30000], [14579, 8998, 5600, 5615]
    master = [29501, 29550, 20000, 20001, 20015]
    words = " ".join(map(str, [*apis, *master, *every, 20016]))
    for name in lab.names:
        lab.on(name, f"systemd-run -q --unit=stands-in python3 -c '{LISTEN}' {words}; sleep 2")
    mine = dict.fromkeys([*apis, *master, *every], "open") | {20016: "shut"}
    assert lab.knock(ubuntu, el, *mine) == mine
    other = dict.fromkeys([*apis, *master], "shut") | dict.fromkeys(every, "open")
    assert lab.knock(el, ubuntu, *other) == other
    outer = dict.fromkeys(apis, "open") | dict.fromkeys([*master, *every], "shut")
    assert lab.outside(el, *outer) == outer
    for name in lab.names:
        lab.on(name, "systemctl stop stands-in")


def test_a_removed_service_is_closed_and_undo_removes_all(lab: Lab) -> None:
    el, ubuntu = lab.names
    lab.serve(["jax"])
    done = lab.site("--tags", "firewall,tuning")
    assert done.code == 0, done.output[-3000:]
    assert lab.knock(ubuntu, el, 8482, 6379, 8000) == {8482: "refused", 6379: "shut", 8000: "shut"}
    reserved = lab.on(el, "sysctl -n net.ipv4.ip_local_reserved_ports")
    assert reserved.strip() == "8482,29400,29500"
    undone = run("ansible-playbook", "playbooks/undo.yml", "-i", str(lab.inventory))
    assert undone.code == 0, undone.output[-3000:]
    for name in lab.names:
        assert "fullmesh" not in lab.on(name, "ls /etc/firewalld/policies 2>/dev/null || true")
        assert not lab.on(name, "ls /etc/fullmesh/services.json 2>/dev/null || true")
        kept = lab.on(name, "sysctl -n net.ipv4.ip_local_reserved_ports").strip()
        assert "8482" not in kept
