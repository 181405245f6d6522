"""Cases of DG-145."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, put
from causes.faults import BARE, MASTER, VICTIM, Fault, at, edited, hosts

CHANGES = {
    "dns": Change(UB, put("reverse", {"10.78.5.11": None})),
}
FAULTS = (
    Fault(
        "dns-black-hole",
        BARE,
        hosts('sed "/$P_HOST/d" $OLD')
        + edited("/etc/resolv.conf", "echo nameserver $SILENT > /etc/resolv.conf")
        + at(
            VICTIM,
            "ip link add silent type veth peer name deaf; ip link set silent up; ip link set deaf up\n"
            "ip route add $SILENT/32 dev silent\n"
            "ip neigh add $SILENT lladdr 02:00:00:00:00:01 dev silent nud permanent",
            "ip link del silent",
        ),
        victim=MASTER,  # the other one asks systemd-resolved, which knows no name server and says so at once
    ),
)
