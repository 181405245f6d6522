"""torch cannot be imported

The Python interpreter that jobs use cannot import torch, so no rank can start.

**Prove:** VENV/bin/python -c 'import torch'

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-302", __doc__)
