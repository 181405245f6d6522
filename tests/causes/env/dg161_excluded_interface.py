"""Cases of DG-161."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_nccl_conf, set_variable
from causes.faults import BARE, Fault, edit_file, set_login_variable

CHANGES = {
    "card left out by NCCL's file": Change(UB, set_nccl_conf("# ours\nNCCL_SOCKET_IFNAME=^eth1\n")),
    "card left out": Change(UB, set_variable("NCCL_SOCKET_IFNAME", "^eth1")),
}
FAULTS = (
    Fault("ifname-left-out", BARE, set_login_variable("NCCL_SOCKET_IFNAME=^eth1")),
    Fault(
        "ifname-left-out",
        BARE,
        edit_file("/etc/nccl.conf", "echo NCCL_SOCKET_IFNAME=^eth1 >> /etc/nccl.conf"),
        "nccl-conf",
    ),
)
