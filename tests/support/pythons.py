"""The interpreters of this machine, for what has to run with those that nodes have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import ansible.module_utils

ROOT = Path(__file__).parents[2]
# EL 9's own, and the newest that ansible-core's modules were looked at with.
NODES = ("3.9", "3.13")


def find_interpreter(version: str) -> str:
    """An interpreter of that version on this machine; '' where there is none.

    A pyenv shim exists for versions that are not switched on: only running it tells.
    """
    places = [f"python{version}", *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for place in places:
        found = shutil.which(str(place))
        ask = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = found and subprocess.run(
            [found, "-Ic", ask], capture_output=True, text=True, check=False
        )
        if found and done and done.stdout.strip() == version:
            return found
    return ""


def copy_node_files(top: Path) -> Path:
    """Put the Ansible files of a node into a folder: its module_utils and Fullmesh's, and nothing else."""
    place = top / "ansible/module_utils"
    shutil.copytree(Path(next(iter(ansible.module_utils.__path__))), place)
    shutil.copytree(ROOT / "module_utils", place, dirs_exist_ok=True)
    (top / "ansible/__init__.py").touch()
    return top
