"""Cases of DG-162."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, one_image
from causes.faults import ALL, BARE, Fault, edited

CHANGES = {
    "one machine-id": Change(UB, one_image("machine_id")),
    "one image": Change(UB, one_image("machine_id", "host_keys")),
}
FAULTS = (
    Fault(
        "one-image",
        BARE,
        edited("/etc/machine-id", f"echo {'5' * 32} > /etc/machine-id", ALL)
        # No sshd takes it for its own: all that the nodes share is a public file.
        + edited(
            "/etc/ssh/ssh_host_fault_key.pub",
            "echo ssh-ed25519 ZmF1bHQ= fault > /etc/ssh/ssh_host_fault_key.pub",
            ALL,
        ),
        expect={"peer": "{peer}"},
    ),
)
