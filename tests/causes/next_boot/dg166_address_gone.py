"""Cases of DG-166."""

from __future__ import annotations

from boot_changes import set_boot_part
from records import UBUNTU1 as UB

from causes.changes import Change
from causes.faults import TUNED, Fault, edit_file

CHANGES = {
    "the address was typed in": Change(
        UB, set_boot_part("address", {"card": "eth1", "leased": False, "kept": False})
    ),
}
FAULTS = (
    Fault(
        "boot-address",
        TUNED,
        edit_file(
            "/etc/netplan/90-fullmesh.yaml",
            'sed -i "s,$V_ADDR/24,$SILENT/24," /etc/netplan/90-fullmesh.yaml',
        ),
    ),
)
