"""a clock differs too much

The c10d rendezvous compares wall clocks and drops a node that is 15 s off: world size 1, exit code 0, trained alone.

**Prove:** chronyc tracking; date +%s on every node

**Fix:** chronyc makestep; ansible-playbook site.yml -i INVENTORY --tags tuning.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-103", __doc__, cases=(CauseCase("clock", "a handshake's time is 20 s off", by=RECORDED),)
)
