"""Cases of DG-120."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, nccl_conf, variable
from causes.faults import TUNED, Fault, job_variable

CHANGES = {
    "ifname one": Change(UB, variable("NCCL_SOCKET_IFNAME", "=eth9")),
    "quotes in NCCL's file": Change(UB, nccl_conf('NCCL_SOCKET_IFNAME="eth1"\n')),
}
FAULTS = (Fault("ifname-one", TUNED, job_variable("GLOO_SOCKET_IFNAME=eth9")),)
