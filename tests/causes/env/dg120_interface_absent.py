"""Cases of DG-120."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_nccl_conf, set_variable
from causes.faults import TUNED, Fault, set_job_variable

CHANGES = {
    "ifname one": Change(UB, set_variable("NCCL_SOCKET_IFNAME", "=eth9")),
    "quotes in NCCL's file": Change(UB, set_nccl_conf('NCCL_SOCKET_IFNAME="eth1"\n')),
}
FAULTS = (Fault("ifname-one", TUNED, set_job_variable("GLOO_SOCKET_IFNAME=eth9")),)
