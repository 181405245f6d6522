"""Lets ansible-lint's rule ``args`` import our modules, which import ``ansible.module_utils.fullmesh``.

Only for the linter (PYTHONPATH of that one part of ``fullmesh test``); without it the rule skips our modules silently.
What makes the linter fast is in ``faster.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ansible.module_utils

ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / "module_utils"))

# not for the ansible-playbook processes that it starts
if any(word.endswith("ansible-lint") for word in sys.orig_argv):
    import faster

    faster.install()
