"""Watch jobs on real nodes with real torch: the missing ranks and the reasons.

The lab is its own.

FULLMESH_WATCH_LAB names a configured lab to use and keep.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from plays import Done, read_output, run

from fullmesh.settings import ROOT

from .conftest import site

LAB = os.environ.get("FULLMESH_WATCH_LAB", "e2e-watch")
KEPT = "FULLMESH_WATCH_LAB" in os.environ
TORCHRUN = "/opt/fullmesh/bin/fullmesh-torchrun"
# The import of torch takes 2 s on an idle machine and 20 s next to other tests.
WITHIN, AFTER = "30", "25"
JOB = """
import datetime, os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=150))
tensor = torch.ones(4)
dist.all_reduce(tensor)
print("sum", tensor[0].item(), flush=True)
dist.destroy_process_group()
sys.exit(int(os.environ.get("CODE", "0")))
"""
ALONE = """
import datetime, os, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): time.sleep(12); return torch.ones(1)
if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=150))
    count = sum(1 for _ in DataLoader(Slow(), num_workers=1))
    os.write(1, b"batches %d\\n" % count)  # one write: both ranks have the same pipe
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def inventory() -> Iterator[str]:
    """Make two configured nodes with a job on them."""
    if not KEPT:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB, "--nodes", "2").code == 0
    known = json.loads(read_output("./fullmesh", "lab", "status", "--json", "--name", LAB))
    found = known["inventory"].rsplit("/", 1)[0]
    if not KEPT:
        assert (
            site("-e", f"verify_cluster_runs_dir={ROOT}/.fullmesh/runs-{LAB}", inventory=found).code
            == 0
        )
    for node in ("el1", "ubuntu1"):
        run_on_node(node, f"mkdir -p /srv/jobs; cat > /srv/jobs/watched.py <<'END'\n{JOB}\nEND")
    yield found
    if not KEPT:
        run("./fullmesh", "lab", "down", "--name", LAB)


def run_on_node(node: str, command: str) -> Done:
    """Run a shell command on a node of this lab."""
    return run(
        "./fullmesh", "lab", "exec", "--name", LAB, node, "--", "sh", "-c", command, seconds=300
    )


def run_on_both_nodes(el1: str, ubuntu1: str) -> tuple[Done, Done]:
    """Run a command on both nodes at the same time."""
    with ThreadPoolExecutor() as pool:
        first, second = (
            pool.submit(run_on_node, "el1", el1),
            pool.submit(run_on_node, "ubuntu1", ubuntu1),
        )
        return first.result(), second.result()


@pytest.fixture
def shut(inventory: str) -> Iterator[None]:
    """Drop the store's port of el1 in a table next to firewalld's."""
    run_on_node(
        "el1",
        "nft add table inet watched && nft add chain inet watched i '{type filter hook input priority -10;}'"
        " && nft add rule inet watched i iifname eth1 tcp dport 29500 drop",
    )
    yield
    run_on_node("el1", "nft delete table inet watched")


@pytest.mark.parametrize("mode", ["--static", "--c10d"])
def test_a_healthy_job_gives_no_finding(inventory: str, mode: str) -> None:
    job = f"CODE=$((7 * NODE_RANK)) {TORCHRUN} {mode} --watch 120 /srv/jobs/watched.py"
    for done in run_on_both_nodes(job, job):
        assert (done.code, "watch:" in done.output) == (0, False)
        assert "sum 2.0" in done.output


def test_a_job_on_one_node_gives_no_finding(inventory: str) -> None:
    """The job has two ranks with data loader processes, and runs longer than the watch waits."""
    job = "--static --watch 20 --nnodes=1 --nproc-per-node=2 /srv/jobs/alone.py"
    run_on_node("el1", "cat > /srv/jobs/alone.py <<'END'\n" + ALONE + "\nEND")
    done = run_on_node("el1", f"{TORCHRUN} {job} 2>&1")
    assert (done.code, "watch:" in done.output) == (0, False)
    assert done.output.count("batches 4") == 2


def test_a_rank_that_is_not_started_is_named(inventory: str) -> None:
    done = run_on_node(
        "el1",
        f"FULLMESH_WATCH_KILL_AFTER=1 {TORCHRUN} --static --watch {WITHIN} /srv/jobs/watched.py 2>&1",
    )
    assert done.code == 1
    assert "[WA-101]" in done.output
    assert "ubuntu1" in done.output
    assert "no firewalld zone of this node blocks it" in done.output
    assert "[WA-108]" in done.output


def test_a_wrong_master_is_named_on_its_node(inventory: str) -> None:
    job = f"FULLMESH_WATCH_KILL_AFTER=1 {TORCHRUN} --static --watch {WITHIN} /srv/jobs/watched.py 2>&1"
    done = run_on_node(
        "ubuntu1", f"MASTER_ADDR=$(. /etc/fullmesh/env; echo ${{MASTER_ADDR%.*}}).99 {job}"
    )
    assert "[WA-102] rank 1 (ubuntu1, this node) has not reached" in done.output
    assert "no host answers ARP" in done.output
    assert "the plan's master is" in done.output


def test_a_blocked_port_is_named_on_both_nodes(shut: None, inventory: str) -> None:
    job = f"FULLMESH_WATCH_KILL_AFTER={AFTER} {TORCHRUN} --static --watch {WITHIN} /srv/jobs/watched.py 2>&1"
    el1, ubuntu1 = run_on_both_nodes(job, job)
    assert "rank 1 (ubuntu1)" in el1.output or "ubuntu1 (" in el1.output
    assert "[WA-102] rank 1 (ubuntu1, this node) has not reached" in ubuntu1.output
    assert "dropped: no answer at all" in ubuntu1.output


def test_the_zone_that_blocks_a_port_is_named(inventory: str) -> None:
    policy = "firewall-cmd -q --policy=fullmesh-job"
    rule = "rule family=ipv4 source ipset=fullmesh-peers4 port port=29500 protocol=tcp accept"
    run_on_node("el1", f"{policy} --remove-rich-rule='{rule}'")
    try:
        job = f"FULLMESH_WATCH_KILL_AFTER={AFTER} {TORCHRUN} --static --watch {WITHIN} /srv/jobs/watched.py 2>&1"
        el1, ubuntu1 = run_on_both_nodes(job, job)
    finally:
        run_on_node("el1", f"{policy} --add-rich-rule='{rule}'")
    assert "zone public on el1 does not open 29500/tcp" in el1.output
    assert "rejected: a firewall answers" in ubuntu1.output


def start_watch(inventory: str, *command: str, more: tuple[str, ...] = ()) -> Done:
    """Start the watch from the controller."""
    return run("./fullmesh", "watch", *more, "-i", inventory, "--", *command, seconds=400)


def test_the_controller_starts_a_job_on_all_nodes(inventory: str) -> None:
    done = start_watch(
        inventory, TORCHRUN, "--static", "/srv/jobs/watched.py", more=("--within", "150")
    )
    assert done.code == 0
    assert sorted(
        line for line in done.output.splitlines() if "sum" in line and line.startswith("[")
    ) == [
        "[el1] sum 2.0",
        "[ubuntu1] sum 2.0",
    ]
    assert "fullmesh watch:" not in done.output


def test_the_controller_names_the_rank_the_cause_and_the_rule(shut: None, inventory: str) -> None:
    more = ("--within", WITHIN, "--kill-after", AFTER)
    done = start_watch(inventory, TORCHRUN, "--static", "/srv/jobs/watched.py", more=more)
    assert done.code == 1
    assert done.says("[WA-101] rank 1 (ubuntu1) has not reached") or done.says("[WA-101] ubuntu1 (")
    assert done.says("dropped: no answer at all")
    assert "[DG-113]" in done.output
    assert "nft delete rule inet watched" in done.output


def test_an_interrupted_watch_leaves_no_process(inventory: str) -> None:
    command = [
        "./fullmesh",
        "watch",
        "-i",
        inventory,
        "--",
        "sh",
        "-c",
        "echo up; exec sleep 417",
    ]
    job = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    guard = threading.Timer(120, job.kill)
    guard.start()
    assert {job.stdout.readline(), job.stdout.readline()} == {"[el1] up\n", "[ubuntu1] up\n"}
    job.terminate()
    assert job.wait(60) == 143
    guard.cancel()
    job.stdout.close()
    for node in ("el1", "ubuntu1"):
        assert "left 0" in run_on_node(node, "echo left $(pgrep -fc '[s]leep 417')").output


def test_the_watch_leaves_the_node_unchanged(inventory: str) -> None:
    """The controller's watch writes nothing on a node."""
    for node in ("el1", "ubuntu1"):
        run_on_node(node, "touch /run/before-watch")
    assert start_watch(inventory, "true").code == 0
    places = "-path '*fullmesh*' -o -path '/tmp/*' -o -path '/root/*' -o -path '/opt/*' -o -path '/etc/*'"
    for node in ("el1", "ubuntu1"):
        found = run_on_node(node, f"find / -xdev -newer /run/before-watch -type f \\( {places} \\)")
        assert found.output.strip() == ""
