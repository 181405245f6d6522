"""nothing explains a finding, and the nodes differ in this, or share it (note)

No rule knows why a link is as it is. So everything that the nodes said is held against one another, without a list of
what may be wrong: what one has otherwise than the others (of two nodes nobody knows which is right), and what several
share that each must have of its own (addresses, hardware addresses, host name, machine-id). Shown is what can do this
to packets at all, the likeliest first. It proves nothing.

**Prove:** change one of them on one node so that it is as on the others, and ask again

**Fix:** Make alike what need not differ; the first that heals the link was the cause, and worth an issue: a rule can
know it the next time.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "DG-172",
    __doc__,
    severity="note",
    cases=(CauseCase("unlike", "a link shut in between, arp_ignore set on one node", by=RECORDED),),
)
