"""Two benches: one that ``site.yml`` configured, and one that was never configured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab_nodes import name_lab

from fullmesh.settings import ROOT

from . import table
from .bench import DATA_RANGE, KERNEL_RANGE, Bench, run_fullmesh, start_bench

TUNED_LAB, BARE_LAB, NODES = name_lab("faults"), name_lab("faults-bare"), 4
# A fake of PyTorch. A diagnosis only reads its version (importlib.metadata), and a real one takes
# minutes.
FAKE_TORCH = """
mkdir -p /opt/fullmesh
[ -x /opt/fullmesh/venv/bin/python ] || python3 -m venv --without-pip /opt/fullmesh/venv
printf '#!/opt/fullmesh/venv/bin/python\\nimport sys\\nsys.exit(1)\\n' > /opt/fullmesh/venv/bin/torchrun
chmod 755 /opt/fullmesh/venv/bin/torchrun
cd /opt/fullmesh/venv/lib/python3.*/site-packages
folder=torch-2.13.0.dist-info
mkdir -p $folder torch/distributed torch/lib
touch torch/lib/libtorch_python.so
for one in __init__ version distributed/__init__ distributed/run; do
  echo "name = '$one'" > torch/$one.py
  echo "torch/$one.py,sha256=x,$(stat -c %s torch/$one.py)"
done > $folder/RECORD
printf 'Metadata-Version: 2.1\\nName: torch\\nVersion: 2.13.0\\n' > $folder/METADATA
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the harness."""
    group = parser.getgroup("faults")
    group.addoption(
        "--check-every", type=int, default=1, help="diagnose repaired nodes after every Nth repair"
    )
    group.addoption("--keep-labs", action="store_true", help="use labs that are up, leave them up")


def pytest_configure(config: pytest.Config) -> None:
    """Start a new table in the main process. With kept labs, the rows of the last run are kept, too."""
    if not hasattr(config, "workerinput") and not config.getoption("--keep-labs"):
        table.start_table()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Merge the rows of all workers in the main process."""
    if not hasattr(session.config, "workerinput"):
        table.write_table(every=session.config.getoption("--check-every"))


def run_lab(
    name: str, count: int, ports: tuple[int, int], request: pytest.FixtureRequest
) -> Iterator[Bench]:
    """Make a lab for the duration of the run."""
    keep_labs = request.config.getoption("--keep-labs")
    if not keep_labs:
        run_fullmesh("lab", "down", "--name", name)
    yield start_bench(name, count, ports)
    if not keep_labs:
        run_fullmesh("lab", "down", "--name", name)


def configure_cluster(bench: Bench, count: int) -> None:
    """Configure the first nodes as a cluster, without PyTorch."""
    names = list(bench.nodes)[:count]
    options = ["-i", str(bench.write_inventory(names)), "--", "--skip-tags", "packages,verify"]
    done = run_fullmesh("apply", *options)
    assert done.returncode == 0, done.stdout[-6000:]
    for node in names:
        bench.on(node, FAKE_TORCH)


@pytest.fixture(scope="session")
def tuned(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Make two nodes that ``site.yml`` configured, and two unconfigured ones."""
    for bench in run_lab(TUNED_LAB, NODES, DATA_RANGE, request):
        first = next(iter(bench.nodes))
        if not bench.on(first, "ls /var/lib/fullmesh/manifest.json", check=False):
            configure_cluster(bench, 2)
        yield bench


@pytest.fixture(scope="session")
def check_every(request: pytest.FixtureRequest) -> int:
    """Return the number of repairs between two diagnoses that must find nothing."""
    return int(request.config.getoption("--check-every"))


def write_plain_inventory(bench: Bench, folder: Path) -> Path:
    """Write the inventory of a user who does not know Fullmesh: logins and cluster addresses."""
    data = yaml.safe_load((bench.inventory / "hosts.yml").read_text())["all"]
    keep_labs = ("ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args")
    hosts = data["children"]["torch_nodes"]["hosts"]
    node_variables = {
        name: {"ansible_host": hosts[name]["ansible_host"], "fullmesh_address": node.address}
        for name, node in bench.nodes.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.yml").write_text(
        yaml.safe_dump(
            {
                "all": {
                    "vars": {key: data["vars"][key] for key in keep_labs},
                    "children": {"torch_nodes": {"hosts": node_variables}},
                }
            }
        )
    )
    return folder


def set_addresses(bench: Bench, family: int = 4) -> None:
    """Set addresses of both families by hand, with names for one of them."""
    lines = "\n".join(
        f"{node.address if family == 4 else node.address6} {node.hostname}"
        for node in bench.nodes.values()
    )
    for name, node in bench.nodes.items():
        bench.on(
            name,
            f"ip link set eth1 up; ip addr replace {node.address}/24 dev eth1\n"
            f"ip addr replace {node.address6}/64 dev eth1 nodad\n"
            f"printf '127.0.0.1 localhost\\n::1 ip6-localhost\\n%s\\n' '{lines}' > /etc/hosts",
        )


@pytest.fixture(scope="session")
def bare(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Make unconfigured nodes with manual addresses."""
    for bench in run_lab(BARE_LAB, NODES, KERNEL_RANGE, request):
        set_addresses(bench)
        bench.inventory = write_plain_inventory(bench, ROOT / ".fullmesh/faults/bare")
        bench.usual = frozenset({"DG-166"})  # a manual address does not survive a boot
        yield bench
