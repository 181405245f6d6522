"""The clock of a node is wrong

The c10d rendezvous compares wall clocks and drops a node that is 15 s off. That node then trains
alone, with world size 1, and ends with exit code 0.

**Prove:** chronyc tracking && date +%s

**Fix:** chronyc makestep, then ansible-playbook site.yml -i INVENTORY --tags tuning.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import PAIR, compute_clock_offsets


def rule_clock_offsets(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that clocks agree. c10d compares wall clocks and silently drops a node that is 15 s behind."""
    offsets = compute_clock_offsets(seen)
    reference = str(seen.plan["master"]["node"])
    # With 3 nodes or more, the majority is right. With 2, the master counts as right.
    base = median(offsets.values()) if len(offsets) > PAIR else 0.0
    for name, offset in offsets.items():
        apart = offset - base
        if abs(apart) > seen.clock_limit:
            yield Finding(
                "VC-103",
                "L1",
                f"the clock of {name} is {abs(apart):.1f} s {'ahead' if apart > 0 else 'behind'}",
                node=name,
                peer=reference if name != reference else "",
                seen=f"{apart:+.1f} s",
                expected=f"within {seen.clock_limit:g} s (torchrun drops a node at 15 s)",
                fix=f"on {name}: chronyc makestep. Then {seen.apply('network')}",
            )


CAUSE = Cause(
    "VC-103",
    __doc__,
    find=rule_clock_offsets,
    cases=(CauseCase("clock", "a handshake's time is 20 s off", by=RECORDED),),
)
