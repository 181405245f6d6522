"""the inventory to ask cannot be read

Who takes part, and how each node is reached, comes from the inventory; Ansible could not make a
plan of it.

**Prove:** ansible-inventory -i INVENTORY --list

**Fix:** What Ansible says of it.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-184", __doc__)
