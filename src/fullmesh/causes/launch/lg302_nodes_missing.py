"""torchrun: not enough nodes joined the rendezvous in time

Fewer nodes than --nnodes joined the rendezvous in time. A node did not start torchrun, or started
it with another --rdzv-id or endpoint.

**Place:** the node without a torchrun, or with other options

**Prove:** on each node: ps -C torchrun -o args (or ./fullmesh verify -i INVENTORY: VC-301, VC-103)

**Fix:** Start all nodes with the same --nnodes, --rdzv-id and --rdzv-endpoint, as Fullmesh's
launchers do.

**Source:** read: dynamic_rendezvous.py, join timeout 600 s
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-302",
    __doc__,
    examples=("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",),
    patterns=(Pattern("RendezvousTimeoutError", r"RendezvousTimeoutError(?:\b(?!.*import))"),),
    weight=55,
)
