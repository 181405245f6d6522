"""Attack a root run on two nodes from an account without rights: bundle, site, verification, job.

``tests/support/adversary.py`` runs on both nodes as ``nobody`` during each step. A test passes if
the adversary did not read, take or change any file of root, if none of its code ran as another
account, and if the verification returns the right result or names the disturbance. The first test
checks the adversary itself: it must succeed against a careless root program.

The adversary also pretends to be the ranks of a job and a node_exporter (``adversary_ranks.py``).
In the last tests a node lies: its Python prints deeply nested or huge data, or no answer. The
answers about all other nodes must be complete.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from plays import read_output, run

from fullmesh.settings import ROOT

from .conftest import ETC_DIGEST, load_latest_result, site

LAB = "e2e-adversary"
HOME = "/srv/adversary"
SOURCES = ("library", "module_utils", "node_programs", "roles", "playbooks")
OPEN = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 (folders that the adversary may write to)
WORD = "canary-that-only-root-knows"
# Targets of the adversary's links: existing files, a missing file, a folder.
CANARIES = ("/root/canary", "/etc/canary")
TARGETS = (*CANARIES, "/root/absent", "/etc/profile.d/zz-absent.sh", "/root/folder")
# Names that torch, Gloo, NCCL, Open MPI, Ansible and package managers use, and names that Fullmesh
# once used.
KNOWN = (
    ".ansible ansible ansible-tmp torchinductor_root torchelastic_root triton ompi.root prterun.root matplotlib-root"
    " gloo pip-build fullmesh fullmesh-verify fullmesh-verify-0 fullmesh-rank-0.nccl fullmesh-rank-1.nccl packages.tar",
    ".ansible dnf-root fullmesh fullmesh-bundle fullmesh-key.asc fullmesh-packages.tar packages.tar",
    "nccl-0 torch_0 sem.fullmesh gloo",
)
PROGRAMS = ("python3", "ip", "nft", "systemctl", "firewall-cmd", "pip", "sh", "nvidia-smi")
# Files of Fullmesh that the adversary may read, each with the reason why it holds no secret. A file
# with the canary's word is never on this list.
READABLE = {
    "/etc/": "what services and jobs of other accounts read",
    "/opt/fullmesh/": "programs, wheels and packages, as published; every job runs them",
    "/run/systemd/transient/fullmesh-": "units, which systemd shows to all; their token opens nothing",
    "/var/lib/fullmesh/manifest.json": "digests of what was written",
    "/var/lib/fullmesh/.fullmesh-": "the same on its way there: mkstemp's 0600 until it gets the manifest's mode",
    f"{OPEN[0]}/dpkg-deb.": "dpkg's own, the control files of a package",
    f"{OPEN[1]}/fullmesh-bundle-": "packages on their way to the controller, as published",
}
NEVER = (
    "secret",
    "may write",
    "may link",
    "may move",
    "came into ours",
    "wrote into ours",
    "stumbled",
)
STORE = (29500, 29400)
IMPOSTOR = 50999  # a data port, so peers may connect
# The job of a verification has a deadline of 120 s. All other deadlines are shorter.
SECONDS = 240
MAKE = """
set -eu
chmod 755 /run  # podman's tmpfs is open to all; no system's is
mkdir -p /root/folder {home}/nobody {home}/won
chown nobody {home}/nobody && chmod 700 {home}/nobody && chmod 1777 {home}/won
for path in {canaries}; do (umask 077; echo {word} >$path); done
umask 077
if test -d /etc/netplan; then echo '# {word}' >>/etc/netplan/90-others.yaml; fi
if test -d /etc/NetworkManager; then
printf '%s\\n' '[connection]' id=others type=wifi interface-name=wlan9 '[wifi]' ssid=x '[wifi-security]' \\
  key-mgmt=wpa-psk psk={word} >/etc/NetworkManager/system-connections/others.nmconnection
fi
"""
# Each mistake that a root program must not make, once.
WEAK = r"""
import contextlib, os, pickle, socket, subprocess, sys, threading, time
os.umask(0o022)
def serve(server):
    while True:
        sock, _ = server.accept()
        with contextlib.suppress(Exception), sock:
            pickle.loads(sock.recv(65536))
threading.Thread(target=serve, args=(socket.create_server(("127.0.0.1", 47001)),), daemon=True).start()
for turn in range(25):
    with contextlib.suppress(OSError):
        os.write(os.open("/tmp/weak.status", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644), b"by name")
    path = "/tmp/weak-%d-%d" % (os.getpid(), turn)
    with open(path, "w") as stream:
        stream.write("WORD")
    time.sleep(0.5)
    with contextlib.suppress(OSError), open(path + ".new", "w") as stream:
        stream.write("by its neighbour")
    subprocess.run([sys.executable, "-c", "import json"], cwd="/tmp", stderr=subprocess.DEVNULL)
    subprocess.run(["sh", "-c", "sleep 0.5; : token=hunter2hunter2"])
os.chmod("/tmp/weak-%d-0" % os.getpid(), 0o4777)
"""
# A job that hangs: rank 1 sleeps, rank 0 waits for it.
HANGS = """
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(3):
    dist.all_reduce(torch.zeros(1))
print("READY", flush=True)
if dist.get_rank() == 1:
    time.sleep(1000)
dist.all_reduce(torch.zeros(1))
"""
# A Python that returns a lie to its callers: hang's program, the one that ask_nodes sends, and
# Ansible's modules.
LIAR = r"""#!/usr/bin/python3
import base64, json, os, re, select, sys, zlib
lie = LIE
if "--packed" in sys.argv:
    sys.stdout.write("\x1efullmesh-hang " + base64.b64encode(zlib.compress(lie.encode())).decode() + "\n")
    sys.exit()
heard = b""
while select.select([0], [], [], 5)[0]:
    more = os.read(0, 65536)
    heard += more
    mark = re.search(rb'"mark": "([^"]+)"', heard)
    if mark:
        sys.stdout.write("%s answer %d\n" % (mark.group(1).decode(), len(lie)))
    if mark or not more:
        break
sys.stdout.write(lie)
"""
LIES = {
    "nested": "'[' * 200000",
    "values": "'[' + '[],' * 4000000 + '[]]'",
    "another form": '\'{"host": 7, "jobs": {}, "ranks": [7], "facts": [[]]}\'',
}
# Files and folders that every account may write to, or that change the account of a process. Sticky
# folders are fine.
WAYS = (
    f"find / /run /tmp /var/tmp /dev/shm -xdev -newer {HOME}/since ! -user nobody"
    r" \( -type f -o -type d \) \( -perm /6000 -o -perm -0002 \) ! -perm -1000"
)


def list_imported_modules() -> set[str]:
    """List the modules that Fullmesh's programs on a node import, and those that Python imports itself."""
    found = {"sitecustomize", "usercustomize", "torch", "numpy", "ansible", "fullmesh"}
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found |= {one.name.partition(".")[0] for one in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module.partition(".")[0])
    return found - {"__future__"}


def list_fixed_names() -> set[str]:
    """List the names in world-writable folders that occur in the code, with 0 for each placeholder."""
    found = set()
    name = re.compile(r"(?:/var/tmp|/tmp|/dev/shm)/[\w.{}()$/-]*[\w})]")
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yml", ".j2", ".sh"):
                found |= set(name.findall(path.read_text()))
    known = {
        f"{folder}/{one}"
        for folder, names in zip(OPEN, KNOWN, strict=True)
        for one in names.split()
    }
    return known | {re.sub(r"\{+[^}]*\}+", "0", one) for one in found}


class Node:
    """A lab node, as root sees it."""

    def __init__(self, name: str, status: dict[str, Any]) -> None:
        self.name = name
        self.address = status["cluster_address"].partition("/")[0]

    def on(self, script: str, seconds: float = 300) -> str:
        """Run a shell script."""
        words = ["./fullmesh", "lab", "exec", "--name", LAB, self.name, "--"]
        return read_output(*words, "sh", "-c", script, seconds=seconds).strip()

    def bring(self, text: str, path: str) -> None:
        """Write a file that all accounts may read."""
        raw = base64.b64encode(text.encode()).decode()
        self.on(f"mkdir -p $(dirname {path}) && echo {raw} | base64 -d >{path} && chmod 644 {path}")

    def canaries(self) -> str:
        """Describe the canaries (bytes, owner, mode, times) and any file that was created through a link."""
        shown = " ".join(CANARIES)
        return self.on(
            f"sha256sum {shown}; stat -c '%n %U:%G %a %Y %Z' {shown}; ls -A /root/folder; ls /root/absent"
            " /etc/profile.d/zz-absent.sh 2>&1 || true"
        )


class Lab:
    """Two nodes with an adversary on each."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
        status: dict[str, Any] = json.loads(
            read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
        )
        self.inventory = status["inventory"].rsplit("/", 1)[0]
        self.nodes = [Node(one["name"], one) for one in status["nodes"]]
        for node in self.nodes:
            node.on(MAKE.format(home=HOME, canaries=" ".join(CANARIES), word=WORD))
            for name in ("adversary.py", "adversary_network.py", "adversary_ranks.py"):
                node.bring((ROOT / "tests/support" / name).read_text(), f"{HOME}/{name}")
        self.untouched = {node.name: node.canaries() for node in self.nodes}

    def let_loose(self, node: Node, **change: Any) -> None:
        """Start the adversary, and wait until all its traps are set."""
        master = self.nodes[0].address
        settings = {
            "home": f"{HOME}/nobody",
            "won": f"{HOME}/won",
            "open": OPEN,
            "words": [WORD],
            "targets": TARGETS,
            "names": sorted(list_fixed_names()),
            "modules": sorted(list_imported_modules()),
            "programs": PROGRAMS,
            "places": [
                *OPEN,
                "/run",
                "/var/lib/fullmesh*",
                "/opt/fullmesh",
                "/etc",
                "/var/log",
                "/root",
                "/home",
                "/srv",
            ],
            "spared": [HOME],
            "stores": [
                [one, port] for one in {"127.0.0.1", master, node.address} for port in STORE
            ],
            "disturb": ["-"],
            "squat": [],
            "job": {},
            "exporter": "",
            **change,
        }
        node.bring(json.dumps(settings), f"{HOME}/settings.json")
        node.on(
            f"touch {HOME}/since; rm -f {HOME}/nobody/found.jsonl {HOME}/won/*;"
            " systemd-run --quiet --unit=adversary --uid=nobody -p WorkingDirectory=/ --"
            f" python3 -Es {HOME}/adversary.py {HOME}/settings.json; for n in $(seq 100); do"
            f" grep -q ready {HOME}/nobody/found.jsonl && exit 0; sleep 0.2; done; systemctl status adversary; exit 1"
        )

    def call_off(self, node: Node) -> list[dict[str, Any]]:
        """Stop the adversary. Return its findings."""
        node.on("systemctl is-active adversary && systemctl stop adversary")
        return [json.loads(line) for line in node.on(f"cat {HOME}/nobody/found.jsonl").splitlines()]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    yield Lab()
    run("./fullmesh", "lab", "down", "--name", LAB)


def list_places(found: Sequence[dict[str, Any]], what: str) -> list[str]:
    """List the places of one kind of finding."""
    return [one["where"] for one in found if one["what"] == what]


def test_the_adversary_wins_against_a_careless_program(lab: Lab) -> None:
    node = lab.nodes[0]
    canary, weak = "/root/weak-canary", f"{OPEN[0]}/weak"
    node.on(f"for n in 1 2; do echo {WORD} >{canary}-$n; done")
    lab.let_loose(node, names=[f"{weak}.status"], targets=[f"{canary}-{n}" for n in (1, 2)])
    node.bring(WEAK.replace("WORD", WORD), "/root/weak.py")
    node.on("python3 /root/weak.py")
    setuid = node.on(WAYS)
    found = lab.call_off(node)
    won = node.on(f"ls {HOME}/won")
    assert node.on(f"cat {canary}-1") == "by its neighbour"
    assert "by name" in node.on(f"cat {canary}-2")
    assert "module-json-uid0" in won
    assert "pickle-tcp-47001-uid0" in won
    assert list_places(found, "wrote into ours") == [f"{weak}.status"]
    read = [one for one in found if one["what"] == "secret"]
    assert {one["by"] for one in read} == {"file", "cmdline"}
    assert re.fullmatch(rf"{weak}-\d+-0", setuid)
    assert list_places(found, "may write") == [setuid]
    assert not list_places(found, "stumbled")
    node.on(f"rm -fr {weak}* {weak[:5]}__pycache__ /root/weak* {HOME}/won/*")


@contextmanager
def run_adversary(lab: Lab, **change: Any) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Run the adversary on both nodes during the block, then check that it did no harm.

    Yields a dictionary that holds its findings per node after the block.
    """
    every: dict[str, list[dict[str, Any]]] = {}
    for node in lab.nodes:
        lab.let_loose(node, **change)
    try:
        yield every
    finally:
        every.update({node.name: lab.call_off(node) for node in lab.nodes})
    for node in lab.nodes:
        check_unharmed(lab, node, every[node.name])


def check_unharmed(lab: Lab, node: Node, found: Sequence[dict[str, Any]]) -> None:
    """Check that the adversary read, took or changed nothing of root, and ran no code as another account."""
    assert node.on(f"ls {HOME}/won") == ""
    assert node.canaries() == lab.untouched[node.name]
    assert node.on(WAYS) == ""
    assert {what: list_places(found, what) for what in NEVER} == {what: [] for what in NEVER}
    read = [
        path
        for path in list_places(found, "may read")
        if "fullmesh" in path or path.startswith(OPEN)
    ]
    assert [path for path in read if not path.startswith(tuple(READABLE))] == []
    assert list_places(found, "spoke to")


def test_a_bundle_is_made(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar"
    with run_adversary(lab):
        assert run("./fullmesh", "bundle", "-i", lab.inventory, "-o", str(path)).code == 0
    assert path.is_file()


def test_bare_nodes_become_a_cluster(lab: Lab) -> None:
    with run_adversary(lab):
        done = site("-e", "node_ssh_manage=true", inventory=lab.inventory)
    assert done.code == 0
    assert load_latest_result()["verdict"] == "ok"


def list_errors(lab: Lab) -> list[dict[str, Any]]:
    """Return the errors of a verification, which ends in time and reports nothing wrong whatever happens to it."""
    done = run("ansible-playbook", "playbooks/verify.yml", "-i", lab.inventory)
    result = load_latest_result()
    errors = [one for one in result["findings"] if one["severity"] == "error"]
    assert done.seconds < SECONDS
    assert (done.code == 0) is (result["verdict"] == "ok") is (not errors)
    return errors


def test_the_verification_is_right_while_the_adversary_only_watches(lab: Lab) -> None:
    with run_adversary(lab) as every:
        assert list_errors(lab) == []
    # The adversary was active: it listed the keys of each store, on the node that serves it and
    # from the other one.
    for found in every.values():
        assert any(one.endswith("29500 /store/0") for one in list_places(found, "store read"))


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({"disturb": ["/"]}, {"VC-308"}),
        # Gloo's addresses lead to the adversary. This usually comes too late, because ranks read
        # them at once.
        (
            {"disturb": ["/fullmesh/"], "squat": [IMPOSTOR]},
            {"VC-303", "VC-401", "VC-403", "VC-808"},
        ),
    ],
    ids=["every key", "the addresses of Gloo"],
)
def test_foreign_writes_to_the_store_give_a_named_fault(
    lab: Lab, change: dict[str, Any], codes: set[str]
) -> None:
    with run_adversary(lab, **change) as every:
        errors = list_errors(lab)
    assert {one["code"] for one in errors} <= codes
    assert errors or change["disturb"] != ["/"]
    assert all(list_places(found, "store wrote") for found in every.values())


def test_the_process_that_holds_the_port_is_named(lab: Lab) -> None:
    with run_adversary(lab, squat=[STORE[0]]):
        errors = list_errors(lab)
    assert {one["code"] for one in errors} == {"VC-109"}
    assert "python3" in str(errors)


def test_a_job_ignores_python_files_in_its_working_folder(lab: Lab) -> None:
    text = (ROOT / "examples/ddp.py").read_text()
    line = (
        f"cd {OPEN[0]} && OMP_NUM_THREADS=1 timeout --kill-after=10 200"
        " /opt/fullmesh/bin/fullmesh-launch --use-env /srv/jobs/ddp.py 3 2>&1"
    )
    for node in lab.nodes:
        node.bring(text, "/srv/jobs/ddp.py")
    with run_adversary(lab), ThreadPoolExecutor() as pool:
        outputs = list(pool.map(lambda node: node.on(line), lab.nodes))
    assert re.search(r"ddp: 2 ranks on cpu, loss 0\.\d+", "\n".join(outputs))


def make_fake_ranks(lab: Lab, exporter: str = "") -> dict[str, Any]:
    """Describe the processes that the adversary starts as ranks of the job that all nodes are configured for."""
    node, port = lab.nodes[0], STORE[0]
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": node.address, "MASTER_PORT": str(port)}
    return {"job": job, "exporter": exporter}


def check_fakes_started(every: dict[str, list[dict[str, Any]]]) -> None:
    """Check that the adversary started all of these processes, except a user namespace if a container forbids it."""
    for found in every.values():
        assert set(list_places(found, "cannot be")) <= {"apart"}


@contextmanager
def run_hanging_job(lab: Lab) -> Iterator[None]:
    """Run a job as root (not as the adversary) whose second rank sleeps while the first one waits for it."""
    for node in lab.nodes:
        node.bring(HANGS, "/srv/jobs/hangs.py")
        node.on(
            "systemd-run --quiet --collect --unit=hangs -p WorkingDirectory=/srv/jobs --"
            " /opt/fullmesh/bin/fullmesh-torchrun --static --watch 0 /srv/jobs/hangs.py"
        )
    try:
        for node in lab.nodes:
            node.on(
                "id=_SYSTEMD_INVOCATION_ID=$(systemctl show -p InvocationID --value hangs); for n in $(seq 300); do"
                " journalctl -q $id | grep -q READY && exit 0; sleep 0.5; done; journalctl -q $id; exit 1"
            )
        yield
    finally:
        for node in lab.nodes:
            node.on("systemctl stop hangs || true")


def find_cause(inventory: str) -> dict[str, Any]:
    """Return what ``./fullmesh hang`` finds: a cause."""
    done = subprocess.run(
        ["./fullmesh", "hang", "-i", inventory, "--json"],
        cwd=ROOT,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_fake_ranks_hide_no_real_rank(lab: Lab) -> None:
    with run_adversary(lab, **make_fake_ranks(lab)) as every, run_hanging_job(lab):
        found = find_cause(lab.inventory)
    check_fakes_started(every)
    jobs = [one for one in (found, *found["others"]) if one["account"] == "root"]
    (first,) = [one for job in jobs for one in job["findings"] if one["code"] == "HG-107"]
    assert (first["ranks"], first["waiting"]) == ([1], [0])
    assert first["place"].startswith("/srv/jobs/hangs.py:")
    named = [one for one in found["findings"] if one["code"] == "HG-152"]
    assert {host for one in named for host in one["hosts"]} == {node.name for node in lab.nodes}
    assert all("account nobody" in one["cause"] for one in named)
    assert any(job["account"] == "nobody" for job in found["others"])


def test_fake_ranks_do_not_disturb_a_diagnosis(lab: Lab) -> None:
    with run_adversary(lab, **make_fake_ranks(lab)) as every:
        done = run("./fullmesh", "diagnose", "-i", lab.inventory, "--json")
        assert list_errors(lab) == []
    check_fakes_started(every)
    assert "Traceback" not in done.output
    found = json.loads(done.output[done.output.index("{") : done.output.rindex("}") + 1])
    assert [one for one in found["findings"] if one["severity"] == "error"] == []


@pytest.mark.parametrize("named", [False, True], ids=["found out", "named by the user"])
def test_a_textfile_folder_of_another_account_is_not_used(lab: Lab, named: bool) -> None:
    folder = f"{HOME}/nobody/text"
    words = ["-e", "monitoring_tools_node_exporter=true"]
    words += ["-e", f"monitoring_tools_textfile_dir={folder}"] if named else []
    with run_adversary(lab, **make_fake_ranks(lab, folder)) as every:
        done = run("ansible-playbook", "playbooks/verify.yml", "-i", lab.inventory, *words)
    assert done.code == 0
    for found in every.values():
        assert bool(list_places(found, "swapped")) == named
    assert named or "MT-109" in done.output


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_node_loses_only_its_own_answer(lab: Lab, tmp_path: Path, lie: str) -> None:
    liar = lab.nodes[1]
    liar.bring(LIAR.replace("LIE", LIES[lie]), "/srv/liar")
    liar.on("chmod 755 /srv/liar")
    inventory = shutil.copytree(Path(lab.inventory), tmp_path / "inventory", symlinks=False)
    (inventory / "host_vars").mkdir(exist_ok=True)
    (inventory / f"host_vars/{liar.name}.yml").write_text("ansible_python_interpreter: /srv/liar\n")
    with run_hanging_job(lab):
        found = find_cause(str(inventory))
    assert found["ranks"] == len(lab.nodes)
    (silent,) = [one for one in found["findings"] if one["code"] == "HG-151"]
    assert silent["hosts"] == [liar.name]
    done = run("./fullmesh", "diagnose", "-i", str(inventory), "--json")
    assert "Traceback" not in done.output
    assert liar.name in done.output
    done = run("ansible-playbook", "playbooks/verify.yml", "-i", str(inventory))
    assert done.code != 0
    assert liar.name in done.output
    assert "Traceback" not in done.output


def test_a_repaired_cluster_needs_no_further_change(lab: Lab) -> None:
    before = {node.name: node.on(ETC_DIGEST) for node in lab.nodes}
    done = site(
        "-e", "fullmesh_converge=always", "-e", "node_ssh_manage=true", inventory=lab.inventory
    )
    assert done.code == 0
    assert set(done.changed().values()) == {0}
    assert {node.name: node.on(ETC_DIGEST) for node in lab.nodes} == before
