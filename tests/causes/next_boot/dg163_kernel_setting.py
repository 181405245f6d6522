"""Cases of DG-163."""

from __future__ import annotations

from boot_changes import RESERVED, at_boot
from records import UBUNTU1 as UB

from causes.changes import Change, setting, together
from causes.faults import TUNED, Fault, edited

CHANGES = {
    "a file sets it otherwise": Change(UB, at_boot("net.ipv4.tcp_mtu_probing", "2")),
    "two settings are one finding": Change(
        UB, together(at_boot("net.ipv4.tcp_mtu_probing", "2"), at_boot("net.core.somaxconn", "128"))
    ),
    "the reserved ports were typed in": Change(
        UB, together(setting(RESERVED, "50000-54095"), at_boot(RESERVED, "", ""))
    ),
}
FAULTS = (
    Fault(
        "boot-sysctl",
        TUNED,
        edited(
            "/etc/sysctl.d/99-local.conf",
            "echo net.ipv4.tcp_mtu_probing=2 > /etc/sysctl.d/99-local.conf",
        ),
    ),
)
