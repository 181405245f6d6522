"""the kernel of a node says why it throws the packets of a link away

The kernel names a reason for every packet that it throws away (tracepoint skb:kfree_skb, since 5.17). While the probe
runs as root it is watched in an instance of tracefs of our own. Where packets of a link end at a node, no rule is
known to stop them, and a reason fits, the reason is said. The event has no addresses: on a busy node the packets of
somebody else may be among them.

**Prove:** cd /sys/kernel/tracing; echo 1 > events/skb/kfree_skb/enable; cat trace_pipe

**Fix:** What the reason names.

**Source:** measured: NETFILTER_DROP at nft_do_chain, OTHERHOST, QDISC_DROP, NEIGH_FAILED (kernel 6.18)
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-180",
    __doc__,
    weight=900,
    explains=(Explains((*LINKS, *WALLS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase("reason", "its packet filter, with a rule that no paper evaluates", by=RECORDED),
    ),
)
