"""Cases of DG-124."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, master_addr, wrong_master_name
from causes.faults import TUNED, Fault, hosts

CHANGES = {
    "master loopback": Change(UB, wrong_master_name),
    "master loopback by variable": Change(UB, master_addr("el1", "127.0.0.1")),
}
FAULTS = (Fault("master-loopback", TUNED, hosts('echo "127.0.0.1 $PEER"; cat $OLD')),)
