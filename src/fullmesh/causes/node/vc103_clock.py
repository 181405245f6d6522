"""The clock of a node is wrong

The c10d rendezvous compares wall clocks and drops a node that is 15 s off. That node then trains
alone, with world size 1, and ends with exit code 0.

**Prove:** chronyc tracking && date +%s

**Fix:** chronyc makestep, then ansible-playbook site.yml -i INVENTORY --tags tuning.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-103", __doc__, cases=(CauseCase("clock", "a handshake's time is 20 s off", by=RECORDED),)
)
