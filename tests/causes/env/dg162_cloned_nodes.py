"""Cases of DG-162."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, copy_image
from causes.faults import ALL, BARE, Fault, edit_file

CHANGES = {
    "one machine-id": Change(UB, copy_image("machine_id")),
    "one image": Change(UB, copy_image("machine_id", "host_keys")),
}
FAULTS = (
    Fault(
        "one-image",
        BARE,
        edit_file("/etc/machine-id", f"echo {'5' * 32} > /etc/machine-id", ALL)
        # No sshd uses it: the nodes only share a public file.
        + edit_file(
            "/etc/ssh/ssh_host_fault_key.pub",
            "echo ssh-ed25519 ZmF1bHQ= fault > /etc/ssh/ssh_host_fault_key.pub",
            ALL,
        ),
        expect={"peer": "{peer}"},
    ),
)
