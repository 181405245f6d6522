"""Cases of DG-145."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_survey_part
from causes.faults import BARE, MASTER, VICTIM, Fault, edit_file, edit_hosts, make_step

CHANGES = {
    "dns": Change(UB, set_survey_part("reverse", {"10.78.5.11": None})),
}
FAULTS = (
    Fault(
        "dns-black-hole",
        BARE,
        edit_hosts('sed "/$P_HOST/d" $OLD')
        + edit_file("/etc/resolv.conf", "echo nameserver $SILENT > /etc/resolv.conf")
        + make_step(
            VICTIM,
            "ip link add silent type veth peer name deaf; ip link set silent up; ip link set deaf up\n"
            "ip route add $SILENT/32 dev silent\n"
            "ip neigh add $SILENT lladdr 02:00:00:00:00:01 dev silent nud permanent",
            "ip link del silent",
        ),
        victim=MASTER,  # the other node uses systemd-resolved, which fails at once without a name server
    ),
)
