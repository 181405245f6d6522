"""Two benches: one that ``site.yml`` configured, and one that was never configured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab_nodes import name_lab

from fullmesh.settings import ROOT

from . import table
from .bench import DATA_RANGE, KERNEL_RANGE, Bench, bench, fullmesh

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
        "--silence-every", type=int, default=1, help="ask for silence after every Nth repair"
    )
    group.addoption("--keep-labs", action="store_true", help="use labs that are up, leave them up")


def pytest_configure(config: pytest.Config) -> None:
    """Start a new table in the main process. With kept labs, the rows of the last run are kept, too."""
    if not hasattr(config, "workerinput") and not config.getoption("--keep-labs"):
        table.begin()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Merge the rows of all workers in the main process."""
    if not hasattr(session.config, "workerinput"):
        table.finish(every=session.config.getoption("--silence-every"))


def fresh(
    name: str, count: int, ports: tuple[int, int], request: pytest.FixtureRequest
) -> Iterator[Bench]:
    """Make a lab for the duration of the run."""
    keep = request.config.getoption("--keep-labs")
    if not keep:
        fullmesh("lab", "down", "--name", name)
    yield bench(name, count, ports)
    if not keep:
        fullmesh("lab", "down", "--name", name)


def configure(made: Bench, count: int) -> None:
    """Configure the first nodes as a cluster, without PyTorch."""
    names = list(made.nodes)[:count]
    words = ["-i", str(made.chosen(names)), "--", "--skip-tags", "packages,verify"]
    done = fullmesh("apply", *words)
    assert done.returncode == 0, done.stdout[-6000:]
    for node in names:
        made.on(node, FAKE_TORCH)


@pytest.fixture(scope="session")
def tuned(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Make two nodes that ``site.yml`` configured, and two unconfigured ones."""
    for made in fresh(TUNED_LAB, NODES, DATA_RANGE, request):
        first = next(iter(made.nodes))
        if not made.on(first, "ls /var/lib/fullmesh/manifest.json", check=False):
            configure(made, 2)
        yield made


@pytest.fixture(scope="session")
def silence_every(request: pytest.FixtureRequest) -> int:
    """Return the number of repairs between two diagnoses that must find nothing."""
    return int(request.config.getoption("--silence-every"))


def plain_inventory(made: Bench, folder: Path) -> Path:
    """Write the inventory of a user who does not know Fullmesh: logins and cluster addresses."""
    data = yaml.safe_load((made.inventory / "hosts.yml").read_text())["all"]
    keep = ("ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args")
    hosts = data["children"]["torch_nodes"]["hosts"]
    plain = {
        name: {"ansible_host": hosts[name]["ansible_host"], "fullmesh_address": node.address}
        for name, node in made.nodes.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.yml").write_text(
        yaml.safe_dump(
            {
                "all": {
                    "vars": {key: data["vars"][key] for key in keep},
                    "children": {"torch_nodes": {"hosts": plain}},
                }
            }
        )
    )
    return folder


def address_by_hand(made: Bench, family: int = 4) -> None:
    """Set addresses of both families by hand, with names for one of them."""
    lines = "\n".join(
        f"{node.address if family == 4 else node.address6} {node.hostname}"
        for node in made.nodes.values()
    )
    for name, node in made.nodes.items():
        made.on(
            name,
            f"ip link set eth1 up; ip addr replace {node.address}/24 dev eth1\n"
            f"ip addr replace {node.address6}/64 dev eth1 nodad\n"
            f"printf '127.0.0.1 localhost\\n::1 ip6-localhost\\n%s\\n' '{lines}' > /etc/hosts",
        )


@pytest.fixture(scope="session")
def bare(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Make unconfigured nodes with manual addresses."""
    for made in fresh(BARE_LAB, NODES, KERNEL_RANGE, request):
        address_by_hand(made)
        made.inventory = plain_inventory(made, ROOT / ".fullmesh/faults/bare")
        made.usual = frozenset({"DG-166"})  # a manual address does not survive a boot
        yield made
