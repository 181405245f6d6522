"""The tests' half of each cause: ``tests/causes/FAMILY/CODE_NAME.py`` for ``src/fullmesh/causes/FAMILY/CODE_NAME.py``.

A file has ``CHANGES`` (typed changes of recorded evidence that give the code), ``VERIFICATION`` (the same of what a
verification saw), ``RECORDED`` (recordings of real faults), and ``FAULTS`` (what breaks a lab node and what undoes it).
They stand here and not in the cause: what makes them belongs to the tests, and a wheel needs neither. Files are found
by the names of the causes.
"""

from __future__ import annotations

from pathlib import Path

import ansible.module_utils

# Import the types of a node's answers as on a node, also without the conftest of the unit tests.
NODE_CODE = str(Path(__file__).parents[2] / "module_utils")
if NODE_CODE not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(NODE_CODE)
