"""The folders of the lab and of its sources."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from devtools.lab.errors import LabError

DEFAULT_HOME = "/var/lib/fullmesh-lab"


@dataclass(frozen=True)
class Paths:
    """All folders of one lab home; two homes share nothing."""

    home: Path
    checkout: Path

    @property
    def sources(self) -> Path:
        """The folder of Containerfiles, package lists and the repository builder."""
        return self.checkout / "lab"

    @property
    def storage(self) -> Path:
        """Images, containers and networks, separate from the machine's own podman."""
        return self.home / "storage"

    @property
    def cache(self) -> Path:
        """Results of build stages that are not images, by digest."""
        return self.home / "cache"

    @property
    def compiled(self) -> Path:
        """Compiled code of Ansible's modules, which the nodes of all labs share (lab/common/lab_compiled.py)."""
        return self.home / "compiled"

    @property
    def logs(self) -> Path:
        """One log file per build stage."""
        return self.home / "logs"

    @property
    def run(self) -> Path:
        """Files that must not survive a reboot: mount namespace, podman's run folder.

        The name has a digest of the home, because unix socket paths are limited to 107 bytes.
        """
        return Path("/run") / f"fullmesh-lab-{hashlib.sha256(bytes(self.home)).hexdigest()[:8]}"

    def lab(self, name: str) -> Path:
        """State of one lab: key, known_hosts, lab.json, inventory."""
        return self.home / "labs" / name


def find() -> Paths:
    """Return the current paths; LB-110 if the checkout has no ``lab`` folder."""
    home = Path(os.environ.get("FULLMESH_LAB_HOME") or DEFAULT_HOME).absolute()
    above = Path(__file__).resolve().parents[3]
    checkout = Path(os.environ.get("FULLMESH_CHECKOUT") or above).absolute()
    if not (checkout / "lab" / "repo" / "mkrepo.sh").is_file():
        raise LabError(
            "LB-110",
            f"the lab's sources are not at {checkout / 'lab'}",
            "Run the lab from a checkout of Fullmesh, or set FULLMESH_CHECKOUT to one.",
        )
    return Paths(home, checkout)
