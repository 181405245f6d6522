"""Record docs/tutorials/broken-link.md again, as record_hour.py records the first hour.

Run it as root: ``python tests/support/record_night.py``. It needs the place of ``inventory/mine``. The page begins
with configured nodes that have a Slurm, which are prepared here.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

from record_hour import MINE, ROOT, record_page, start_lab

PAGE = ROOT / "docs/tutorials/broken-link.md"
SETTINGS = """\
node_health_manage: true
node_health_interval_minutes: 1
fullmesh_services:
  - {name: slurm, ports: [6817/tcp, 6818/tcp]}
"""


def configure_nodes(env: Mapping[str, str]) -> None:
    """Configure the nodes with Fullmesh, and install Slurm."""
    commands = (
        "./fullmesh init --hosts el1,el2,ubuntu1 --non-interactive",
        "./fullmesh apply -i inventory/mine",
        "./fullmesh dev ansible-playbook tests/support/record_night.yml -i inventory/mine -e fullmesh_converge=always",
    )
    for at, command in enumerate(commands):
        subprocess.run(command.split(), cwd=ROOT, env=env, check=True)
        if at == 0:
            settings = MINE / "group_vars/torch_nodes"
            shutil.copytree(ROOT / "inventory/lab/group_vars/all", settings)
            (settings / "health.yml").write_text(SETTINGS)


def main() -> None:
    """Record the page."""
    with start_lab("night", nodes=3) as env:
        configure_nodes(env)
        PAGE.write_text(record_page(PAGE.read_text(), env))


if __name__ == "__main__":
    main()
