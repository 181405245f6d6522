"""Cases of DG-144."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, counted, setting, shut, together
from causes.faults import BARE, MASTER, Fault, sysctl
from fullmesh.result.findings import WARNING

CHANGES = {
    "backlog": Change(EL, setting("net.core.somaxconn", "1", EL), WARNING),
    "backlog overflows": Change(
        UB,
        together(
            shut(),
            setting("net.core.somaxconn", "1"),
            counted("TcpExt.ListenOverflows", 12),
        ),
    ),
}
FAULTS = (
    # Two may wait, two ranks open four connections to the store.
    Fault("backlog", BARE, sysctl("net.core.somaxconn=1"), victim=MASTER),
)
