"""The inventory of the nodes to query cannot be read

The inventory lists the nodes and how to connect to them. Ansible could not read it.

**Prove:** ansible-inventory -i INVENTORY --list

**Fix:** Correct the error that Ansible prints.
"""

from __future__ import annotations

from fullmesh.causes.hang.job import HangCause

CAUSE = HangCause("HG-184", __doc__)
