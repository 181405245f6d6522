"""Cases of DG-165."""

from __future__ import annotations

from boot_changes import TABLES, set_boot_part, unit
from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, combine
from causes.faults import TUNED, VICTIM, Fault, Step, make_step


def write_nft_file(text: str) -> tuple[Step, ...]:
    """Write the file of nftables.service, which is enabled but not started. Debian and EL have it in two places."""
    return make_step(
        VICTIM,
        "F=/etc/nftables.conf; [ -d /etc/sysconfig ] && F=/etc/sysconfig/nftables.conf\n"
        f"[ -e $F ] && cat $F > /run/fault.nft; printf '%s\\n' '{text}' > $F; systemctl -q enable nftables",
        "F=/etc/nftables.conf; [ -d /etc/sysconfig ] && F=/etc/sysconfig/nftables.conf\n"
        "systemctl -q disable nftables\n"
        "if [ -e /run/fault.nft ]; then cat /run/fault.nft > $F; rm /run/fault.nft; else rm $F; fi",
    )


WALL_FILE = "table inet wall { chain input { type filter hook input priority 0; policy drop; tcp dport 22 accept; }; }"


CHANGES = {
    "firewalld stopped": Change(UB, unit("firewalld.service", active="inactive")),
    "firewalld failed": Change(EL, unit("firewalld.service", EL, active="failed")),
    "ufw enabled": Change(UB, combine(unit("ufw.service"), set_boot_part("ufw", value=True))),
    "nftables' file": Change(
        UB, combine(unit("nftables.service", file="enabled"), set_boot_part("tables", TABLES))
    ),
}
FAULTS = (Fault("boot-firewall", TUNED, write_nft_file(WALL_FILE)),)
