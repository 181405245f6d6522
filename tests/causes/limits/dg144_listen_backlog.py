"""Cases of DG-144."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, block_links, change_sysctl, combine, raise_counter
from causes.faults import BARE, MASTER, Fault, set_sysctl
from fullmesh.result.findings import WARNING

CHANGES = {
    "backlog": Change(EL, change_sysctl("net.core.somaxconn", "1", EL), WARNING),
    "backlog overflows": Change(
        UB,
        combine(
            block_links(),
            change_sysctl("net.core.somaxconn", "1"),
            raise_counter("TcpExt.ListenOverflows", 12),
        ),
    ),
}
FAULTS = (
    # Two connections can wait, and two ranks open four connections to the store.
    Fault("backlog", BARE, set_sysctl("net.core.somaxconn=1"), victim=MASTER),
)
