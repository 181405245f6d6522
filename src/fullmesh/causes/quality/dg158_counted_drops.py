"""the kernel of a node throws packets away and counts them, beside its packet filter

Not only nftables stops packets: policies of IPsec (a VPN that is half taken down), queues of tc, signed connections.
Each has a counter of the network namespace, and what grew while the probe ran is said.

**Prove:** cat /proc/net/xfrm_stat; tc -s qdisc; nstat -az | grep -iE 'drop|filter|md5|ao'

**Fix:** What the counter names: ip xfrm policy delete, tc qdisc del, the program that asks for signatures.

**Source:** measured: XfrmOutPolBlock, XfrmInPolBlock, drops of pfifo
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-158",
    __doc__,
    weight=950,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase("ipsec", "ip xfrm policy add … dir out action block", fields=LINK),
        CauseCase(
            "queue", "tc qdisc add dev eth1 root pfifo limit 0 or bfifo limit 100", fields=LINK
        ),
    ),
)
