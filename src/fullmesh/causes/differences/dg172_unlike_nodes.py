"""Nothing explains a finding, and the nodes differ in this, or share it (note)

No rule explains the state of a link, so Fullmesh compares all collected values. It lists values in
which one node differs from the others, and values that several nodes share although each needs its
own (addresses, hardware addresses, host name, machine-id). Only values that can affect packets are
listed, the most likely first. They are hints, not proof.

**Prove:** change one value on one node to match the others, and repeat the diagnosis

**Fix:** Make the values alike, one by one. If a change repairs the link, it was the cause. Report
it as an issue, so that Fullmesh gets a rule for it.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "DG-172",
    __doc__,
    severity="note",
    cases=(
        CauseCase(
            "unlike", "a link blocked between the nodes, arp_ignore set on one node", by=RECORDED
        ),
    ),
)
