"""Cases of DG-163."""

from __future__ import annotations

from boot_changes import RESERVED, at_boot
from records import UBUNTU1 as UB

from causes.changes import Change, change_sysctl, combine
from causes.faults import TUNED, Fault, edit_file

CHANGES = {
    "a file sets it otherwise": Change(UB, at_boot("net.ipv4.tcp_mtu_probing", "2")),
    "two settings are one finding": Change(
        UB, combine(at_boot("net.ipv4.tcp_mtu_probing", "2"), at_boot("net.core.somaxconn", "128"))
    ),
    "the reserved ports were typed in": Change(
        UB, combine(change_sysctl(RESERVED, "50000-54095"), at_boot(RESERVED, "", ""))
    ),
}
FAULTS = (
    Fault(
        "boot-sysctl",
        TUNED,
        edit_file(
            "/etc/sysctl.d/99-local.conf",
            "echo net.ipv4.tcp_mtu_probing=2 > /etc/sysctl.d/99-local.conf",
        ),
    ),
)
