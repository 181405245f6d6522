"""The digest of the code that decides what a node converges to: the manifest keeps it, so that new code is noticed."""

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
# What lies there as well and decides nothing: a word fixed in a report must not converge every node again. A test
# holds that nothing which is counted imports one of these.
NOT_COUNTED = (
    "*/README.md",
    # what looks at nodes, judges them and shows what was found
    "roles/verify_cluster/*",
    "roles/monitoring_tools/tasks/publish.yml",
    "library/ladder_*.py",
    "library/run_result.py",
    "module_utils/fullmesh/probe/*",
    "module_utils/fullmesh/survey/*",
    # how nodes are asked, not what
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
    # EC2's side, which is no node
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
    # where a package comes from; which one it is the roles say
    "library/bundle_*.py",
    "module_utils/fullmesh/bundle/*",
    "src/fullmesh/filters/bundle.py",
    "playbooks/bundle.yml",
    "playbooks/phases/bundle*.yml",
    "playbooks/tasks/bundle_*.yml",
    "playbooks/vars/bundle.yml",
    "src/fullmesh/roles/bundle.py",
    # the rollback, the command line, what it asks before there is an inventory
    "library/network_ways.py",
    "module_utils/fullmesh/network/ways.py",
    "module_utils/fullmesh/schema/first_look.py",
    "playbooks/first_look.yml",
    "playbooks/show_plan.yml",
    "src/fullmesh/init/*",
    "src/fullmesh/play/*",
    "src/fullmesh/verbs/*",
    "playbooks/undo.yml",
    "src/fullmesh/__main__.py",
    "src/fullmesh/cli.py",
    "src/fullmesh/codes.py",
)


def list_digest_files(root: Path = ROOT) -> Iterator[Path]:
    """The files that the digest is made of, relative to the checkout: where that lies makes no difference."""
    for top in COUNTED:
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root)
            if "__pycache__" in name.parts or not path.is_file():
                continue
            if not any(fnmatchcase(str(name), pattern) for pattern in NOT_COUNTED):
                yield name


@cache
def compute_code_digest(root: Path = ROOT) -> str:
    """SHA-256 over all that decides what a node is turned into."""
    digest = hashlib.sha256()
    for name in list_digest_files(root):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()
