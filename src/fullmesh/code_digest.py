"""Compute the digest of the code that decides the state of a node. The manifest keeps it, to detect new code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from fullmesh.settings import ROOT

COUNTED = (
    "roles",
    "library",
    "module_utils",
    "node_programs",
    "filter_plugins",
    "playbooks",
    "src/fullmesh",
)
# Files in these folders that do not affect a node's state: a new wording in a report must not configure every node
# again. A test checks that no counted file imports one of these.
NOT_COUNTED = (
    "*/README.md",
    # code that surveys nodes, and evaluates and reports the result
    "roles/verify_cluster/*",
    "roles/monitoring_tools/tasks/publish.yml",
    "library/ladder_*.py",
    "library/run_result.py",
    "module_utils/fullmesh/probe/*",
    "module_utils/fullmesh/survey/*",
    # the transport of queries
    "library/ask_nodes.py",
    "library/node_answer.py",
    "module_utils/fullmesh/ask/*",
    "src/fullmesh/ask/*",
    "src/fullmesh/filters/diagnose.py",
    "src/fullmesh/filters/verify_cluster.py",
    "src/fullmesh/filters/watch.py",
    "playbooks/diagnose.yml",
    "playbooks/verify.yml",
    "playbooks/watch.yml",
    "playbooks/phases/verify.yml",
    "playbooks/tasks/diagnose*.yml",
    "playbooks/vars/diagnose.yml",
    "src/fullmesh/causes/*",
    "src/fullmesh/diagnose/*",
    "src/fullmesh/explain/*",
    "src/fullmesh/hang/*",
    "src/fullmesh/report/*",
    "src/fullmesh/result/*",
    "src/fullmesh/schema/*",
    "src/fullmesh/shell/*",
    # src/fullmesh/observed is a link to it
    "module_utils/fullmesh/schema/hang.py",
    "module_utils/fullmesh/schema/ladder.py",
    "module_utils/fullmesh/schema/ranks.py",
    "module_utils/fullmesh/schema/survey.py",
    "src/fullmesh/verify/*",
    "src/fullmesh/watch/*",
    # EC2, which is not on the nodes
    "roles/ec2_security_group/*",
    "library/ec2_*.py",
    "module_utils/fullmesh/ec2_rules.py",
    "library/efa_facts.py",
    "module_utils/fullmesh/facts/efa.py",
    "src/fullmesh/filters/ec2.py",
    "src/fullmesh/filters/efa.py",
    "playbooks/ec2*.yml",
    "playbooks/efa_diagnose.yml",
    "src/fullmesh/ec2/*",
    # the source of a package (its version comes from the roles)
    "library/bundle_*.py",
    "module_utils/fullmesh/bundle/*",
    "src/fullmesh/filters/bundle.py",
    "playbooks/bundle.yml",
    "playbooks/phases/bundle*.yml",
    "playbooks/tasks/bundle_*.yml",
    "playbooks/vars/bundle.yml",
    "src/fullmesh/roles/bundle.py",
    # the rollback, the command line, and queries before there is an inventory
    "library/network_ways.py",
    "module_utils/fullmesh/network/ways.py",
    "module_utils/fullmesh/schema/first_look.py",
    "playbooks/first_look.yml",
    "playbooks/show_plan.yml",
    "playbooks/status.yml",
    "src/fullmesh/init/*",
    "src/fullmesh/play/*",
    "src/fullmesh/verbs/*",
    "src/fullmesh/roles/torch_locks.py",
    "playbooks/undo.yml",
    "src/fullmesh/__main__.py",
    "src/fullmesh/catalogue.py",
    "src/fullmesh/cli.py",
    "src/fullmesh/cluster_status.py",
    "src/fullmesh/codes.py",
)


def list_digest_files(root: Path = ROOT) -> Iterator[Path]:
    """List the files in the digest, relative to the checkout, so that its location does not matter."""
    for top in COUNTED:
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root)
            if "__pycache__" in name.parts or not path.is_file():
                continue
            if not any(fnmatchcase(str(name), pattern) for pattern in NOT_COUNTED):
                yield name


@cache
def compute_code_digest(root: Path = ROOT) -> str:
    """Compute SHA-256 over all code that decides the state of a node."""
    digest = hashlib.sha256()
    for name in list_digest_files(root):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()
