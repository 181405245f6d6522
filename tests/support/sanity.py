"""Run ``ansible-test sanity`` on the collection, as Galaxy does: ``python tests/support/sanity.py``.

The collection is installed and its links are replaced by their targets, because the tests reject
links to folders. They check only plugins below ``plugins/``. The collections that ours needs are
copied next to it from the ``ansible`` package.

RULES lists the ignored errors, each with its reason. ansible-test's list by file is generated from
it, and ansible-test rejects an entry that is not needed. Only the package index is contacted, for
the linters that ansible-test pins. Python's own ``pip`` replaces the one that ansible-test would
download.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ansible
import ansible_collections
import ansible_test

from fullmesh.settings import ROOT

# its environments for linters are kept here between runs
HOME = ROOT / ".fullmesh/sanity"
TREE = HOME / "tree/ansible_collections"
OURS = TREE / "fullmesh/cluster"
BESIDE = ("amazon", "ansible", "community")
CORE = ".".join(ansible.release.__version__.split(".")[:2])
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def match_always(_text: str) -> bool:
    """Match every file of the pattern."""
    return True


def binds_underscore(text: str) -> bool:
    """Return whether a value is bound to the name ``_``, except by a lambda."""
    tree = ast.parse(text)
    of_lambdas = {
        arg for one in ast.walk(tree) if isinstance(one, ast.Lambda) for arg in ast.walk(one.args)
    }
    return any(
        (isinstance(one, ast.Name) and one.id == "_" and isinstance(one.ctx, ast.Store))
        or (isinstance(one, ast.arg) and one.arg == "_" and one not in of_lambdas)
        for one in ast.walk(tree)
    )


def is_documented_late(text: str) -> bool:
    """Return whether a plugin's documentation follows an import other than __future__'s."""
    first = re.search(r"^(?:import|from (?!__future__))", text, re.MULTILINE)
    documentation = re.search(r"^DOCUMENTATION", text, re.MULTILINE)
    return bool(first and documentation and first.start() < documentation.start())


@dataclass(frozen=True)
class Rule:
    """A kind of error that is ignored.

    Attributes:
        code: a test of ansible-test, with its message.
        files: patterns below the collection.
        why: the reason.
        where: selects the files that have the error.
    """

    code: str
    files: tuple[str, ...]
    why: str
    where: Callable[[str], bool] = match_always


MODULES, CALLBACKS = "plugins/modules/*.py", "plugins/callback/*.py"
RULES = (
    Rule(
        "validate-modules:missing-gplv3-license",
        (MODULES, CALLBACKS),
        "Fullmesh is under the MIT licence",
    ),
    Rule(
        "validate-modules:invalid-documentation",
        (MODULES,),
        "authors are contributors, no one account",
    ),
    Rule(
        "validate-modules:import-before-documentation",
        (MODULES, CALLBACKS),
        "imports come first, as everywhere; Ansible finds the documentation all the same",
        is_documented_late,
    ),
    Rule(
        "pylint:disallowed-name",
        ("**/*.py",),
        "_ is a value that nobody needs, as in Python's own manual",
        binds_underscore,
    ),
    Rule(
        "pylint:ansible-bad-function",
        (
            "plugins/module_utils/fullmesh/torch_env.py",
            "plugins/module_utils/fullmesh/transaction/engine.py",
        ),
        "a link is not made over a file; the engine is a program as well, which ends with a code",
    ),
    Rule(
        "ansible-doc!skip",
        ("plugins/filter/fullmesh.py",),
        "its core needs msgspec, which ansible-test's own environment has not",
    ),
    Rule(
        "import",
        ("plugins/action/ask_nodes.py", "plugins/action/run_result.py"),
        "they run on the controller, whose msgspec ansible-test's own environment has not",
    ),
)
# Pylint's opinions about code that passes the strictest rules of ruff and mypy. They are few, so
# they are listed by file.
OPINIONS = {
    "use-maxsplit-arg": ("src/fullmesh/diagnose/inventory.py",),
    "duplicate-string-formatting-argument": ("node_programs/fullmesh_launch.py",),
    "use-sequence-for-iteration": (
        "src/fullmesh/causes/firewall/blocking_rules.py",
        "src/fullmesh/support/redact.py",
        "src/fullmesh/verbs/support.py",
    ),
    "dangerous-default-value": ("src/fullmesh/play/options.py",),
    # in types, which are not evaluated
    "unsupported-binary-operation": ("plugins/module_utils/fullmesh/ask/boot.py",),
    "stop-iteration-return": (
        "src/fullmesh/causes/addresses/taken_addresses.py",
        "src/fullmesh/causes/firewall/dg183_job_unit_held.py",
        "src/fullmesh/causes/gpu/vc118_two_nccls.py",
        "src/fullmesh/causes/gpu/vc142_iommu.py",
        "src/fullmesh/causes/hang/lag.py",
        "src/fullmesh/causes/rdma/dg196_rdma_rule.py",
    ),
    # names in a quoted type
    "unused-import": (
        "src/fullmesh/causes/gpu/dg149_unequal_gpus.py",
        "src/fullmesh/play/progress.py",
        "src/fullmesh/report/rails.py",
        "src/fullmesh/verify/pairs.py",
    ),
    "arguments-out-of-order": ("src/fullmesh/causes/quality/dg138_packet_loss.py",),
    # takes a fifth of the search's time
    "unidiomatic-typecheck": (
        "plugins/module_utils/fullmesh/probe/rdma.py",
        "src/fullmesh/diagnose/shape.py",
    ),
    "unnecessary-comprehension": ("src/fullmesh/verify/ranks.py",),
}


def list_ignored_errors() -> Iterator[str]:
    """Return the lines of ``tests/sanity/ignore-X.Y.txt``."""
    for rule in RULES:
        for path in sorted({path for pattern in rule.files for path in OURS.glob(pattern)}):
            if path.is_file() and rule.where(path.read_text(encoding="utf-8")):
                code = f"{rule.code}-{PYTHON}" if rule.code == "import" else rule.code
                yield f"{path.relative_to(OURS)} {code} # {rule.why}"
    for name, files in OPINIONS.items():
        for file in files:
            yield f"{file} pylint:{name} # an opinion of pylint's"


def install_collections() -> None:
    """Install the collection without links, and the collections that it needs next to it."""
    shutil.rmtree(HOME / "tree", ignore_errors=True)
    TREE.mkdir(parents=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    made = [sys.executable, "-m", "fullmesh", "collection", "--to", str(HOME / "tree")]
    subprocess.run(made, env=env, check=True, stdout=subprocess.DEVNULL)
    (archive,) = (HOME / "tree").glob("*.tar.gz")
    install = [
        "ansible-galaxy",
        "collection",
        "install",
        "--offline",
        str(archive),
        "-p",
        str(TREE.parent),
    ]
    # if this machine already has a collection, galaxy would install nothing
    env["ANSIBLE_COLLECTIONS_PATH"] = str(TREE.parent)
    subprocess.run(install, env=env, check=True, stdout=subprocess.DEVNULL)
    for link in [path for path in OURS.rglob("*") if path.is_symlink() and path.is_dir()]:
        target = link.resolve()
        link.unlink()
        shutil.copytree(target, link)
    for name in ("action_plugins", "callback_plugins", "filter_plugins", "library", "module_utils"):
        shutil.rmtree(OURS / name)
    (packages,) = {Path(path) for path in ansible_collections.__path__}
    for name in BESIDE:
        (TREE / name).symlink_to(packages / name)
    lines = sorted(list_ignored_errors())
    (OURS / "tests/sanity").mkdir(parents=True)
    (OURS / f"tests/sanity/ignore-{CORE}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # without a repository ansible-test takes every file; with one it uses git's list
    subprocess.run(["git", "init", "-q", str(OURS)], check=True)


def provide_pip() -> None:
    """Put Python's own pip where ansible-test keeps the program that would download one."""
    source = Path(ansible_test.__path__[0], "_internal/python_requirements.py").read_text()
    match = re.search(r"pip='([0-9.]+)'", source)
    assert match, "ansible-test no longer names its pip there"
    kept = HOME / f".ansible/test/cache/get_pip_{match[1].replace('.', '_')}.py"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("import ensurepip\n\nensurepip.bootstrap()\n", encoding="utf-8")


def main() -> int:
    """Run the tests. Return ansible-test's exit code."""
    install_collections()
    provide_pip()
    command = [
        "ansible-test",
        "sanity",
        "--local",
        "--python",
        PYTHON,
        "--color",
        "no",
        *sys.argv[1:],
    ]
    return subprocess.run(
        command, cwd=OURS, env={**os.environ, "HOME": str(HOME)}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
