"""Compute the digest of the code that decides the state of a node. The manifest keeps it, to detect new code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from fullmesh.settings import ROOT

# Code that decides the state of a node.
CONFIGURING = (
    "filter_plugins",
    "library",
    "module_utils",
    "node_programs",
    "playbooks/phases",
    "playbooks/plan.yml",
    "playbooks/preflight.yml",
    "playbooks/settings.yml",
    "playbooks/tasks",
    "playbooks/vars",
    "roles",
    "src/fullmesh/*.py",
    "src/fullmesh/filters",
    "src/fullmesh/model",
    "src/fullmesh/roles",
)
# Code in these folders that surveys nodes, evaluates and reports, or only carries queries: a new wording in a report
# must not configure every node again. A test checks that code which counts imports none of it.
OBSERVING = (
    "library/ladder_*.py",
    "module_utils/fullmesh/ask",
    "module_utils/fullmesh/probe",
    "module_utils/fullmesh/survey",
    "playbooks/phases/verify.yml",
    "roles/ec2_security_group",
    "roles/monitoring_tools/tasks/publish.yml",
    "roles/verify_cluster",
    "src/fullmesh/__main__.py",
    "src/fullmesh/catalogue.py",
    "src/fullmesh/cli.py",
    "src/fullmesh/cluster_status.py",
    "src/fullmesh/codes.py",
    "src/fullmesh/filters/observe",
    "src/fullmesh/roles/torch_locks.py",
)


def is_counted(name: Path) -> bool:
    """Return whether a file below `CONFIGURING` belongs to the digest."""
    above = [str(one) for one in (name, *name.parents)]
    observes = any(fnmatchcase(one, pattern) for one in above for pattern in OBSERVING)
    return not observes and name.name != "README.md" and "__pycache__" not in name.parts


def list_digest_files(root: Path = ROOT) -> Iterator[Path]:
    """List the files in the digest, relative to the checkout, so that its location does not matter."""
    tops = [top for pattern in CONFIGURING for top in sorted(root.glob(pattern))]
    for path in [one for top in tops for one in (top, *sorted(top.rglob("*")))]:
        name = path.relative_to(root)
        if path.is_file() and is_counted(name):
            yield name


@cache
def compute_code_digest(root: Path = ROOT) -> str:
    """Compute SHA-256 over all code that decides the state of a node."""
    digest = hashlib.sha256()
    for name in list_digest_files(root):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()
