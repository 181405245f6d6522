"""Cases of DG-124."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_master_address, set_wrong_master_name
from causes.faults import TUNED, Fault, edit_hosts

CHANGES = {
    "master loopback": Change(UB, set_wrong_master_name),
    "master loopback by variable": Change(UB, set_master_address("el1", "127.0.0.1")),
}
FAULTS = (Fault("master-loopback", TUNED, edit_hosts('echo "127.0.0.1 $PEER"; cat $OLD')),)
