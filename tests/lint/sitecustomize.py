"""Lets ansible-lint's rule ``args`` import our modules, which import ``ansible.module_utils.fullmesh_*``.

Only for the linter (PYTHONPATH of that one part of ``fullmesh test``); without it the rule skips our modules silently.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

import ansible.module_utils

ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / "module_utils"))

Value = TypeVar("Value")

if any(word.endswith("ansible-lint") for word in sys.orig_argv):
    from ansible.module_utils._internal import _datatag

    def itself(value: Value, memo: dict[int, object]) -> Value:
        """What deepcopy makes of a value that cannot change."""
        return value

    # ansible-lint copies every task once for each of its rules, and deepcopy knows the plain str as immutable, but not
    # Ansible's own: that was most of the linter's 257 s of processor time.
    for name in ("_AnsibleTaggedStr", "_AnsibleTaggedInt", "_AnsibleTaggedFloat"):
        getattr(_datatag, name).__deepcopy__ = itself
