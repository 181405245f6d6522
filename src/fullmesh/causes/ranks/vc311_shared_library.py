"""A shared library that torch needs is missing or has the wrong version

Python found torch, but the dynamic linker found no library of that name, or the library lacks a
symbol.

**Prove:** ldd VENV/lib/python3*/site-packages/torch/lib/libtorch.so | grep 'not found'

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-311", __doc__)
