"""ansible-lint without work that it does over and over; what it checks and says stays the same.

Measured on this tree (ansible-lint 26.10, 400 YAML files): 260 s of processor time, of which

* half is ``ansible-playbook --syntax-check``, a process for each of 120 playbooks, and again for each way to write
  the path of an imported one (``molecule/x/../../playbooks/plan.yml``). One process takes them all. Where it finds
  anything wrong, ansible-lint asks file by file, as it always does.
* a quarter is deepcopy of every task for each of 44 rules. deepcopy knows the plain str as immutable, but not
  Ansible's tagged one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ansible.module_utils._internal import _datatag
from ansible_compat.runtime import Runtime
from ansiblelint.runner import Runner

if TYPE_CHECKING:
    from ansiblelint.errors import MatchError
    from ansiblelint.file_utils import Lintable

    Worker = Callable[[Lintable], list[MatchError]]

Value = TypeVar("Value")
SYNTAX = ("ansible-playbook", "--syntax-check", "-i", "localhost,")
SECONDS = 600
right: set[Path] = set()


def itself(value: Value, memo: dict[int, object]) -> Value:
    """What deepcopy makes of a value that cannot change."""
    return value


def check_at_once(paths: Sequence[Path]) -> None:
    """Remember the playbooks whose syntax one process finds right."""
    done = subprocess.run(
        [*SYNTAX, *map(str, paths)], capture_output=True, timeout=SECONDS, check=False
    )
    if not done.returncode:
        right.update(path.resolve() for path in paths)


def install() -> None:
    """Change ansible-lint in this process."""
    for name in ("_AnsibleTaggedStr", "_AnsibleTaggedInt", "_AnsibleTaggedFloat"):
        getattr(_datatag, name).__deepcopy__ = itself
    one_by_one, has_playbook = Runner._map_syntax_check_workers, Runtime.has_playbook

    def all_at_once(self: Runner, worker: Worker, files: list[Lintable]) -> list[list[MatchError]]:
        check_at_once([file.path for file in files if file.kind == "playbook"])
        rest = [file for file in files if file.path.resolve() not in right]
        found: list[list[MatchError]] = one_by_one(self, worker, rest)
        return found

    def known(self: Runtime, playbook: str, **more: Any) -> bool:
        return Path(playbook).resolve() in right or bool(has_playbook(self, playbook, **more))

    Runner._map_syntax_check_workers = all_at_once
    Runtime.has_playbook = known
