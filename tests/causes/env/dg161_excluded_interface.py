"""Cases of DG-161."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, nccl_conf, variable
from causes.faults import BARE, Fault, edited, login_variable

CHANGES = {
    "card left out by NCCL's file": Change(UB, nccl_conf("# ours\nNCCL_SOCKET_IFNAME=^eth1\n")),
    "card left out": Change(UB, variable("NCCL_SOCKET_IFNAME", "^eth1")),
}
FAULTS = (
    Fault("ifname-left-out", BARE, login_variable("NCCL_SOCKET_IFNAME=^eth1")),
    Fault(
        "ifname-left-out",
        BARE,
        edited("/etc/nccl.conf", "echo NCCL_SOCKET_IFNAME=^eth1 >> /etc/nccl.conf"),
        "nccl-conf",
    ),
)
