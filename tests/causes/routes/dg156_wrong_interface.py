"""Cases of DG-156."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, decided, ends, shut, together
from causes.faults import BARE, LINK_OUT, VICTIM, Fault, at

CHANGES = {
    "astray": Change(UB, together(shut(), decided("answer", dev="tun0"))),
    "next hop": Change(UB, together(ends("no_route"), decided(dev="eth1", via="10.78.5.250"))),
}
FAULTS = (
    Fault(
        "astray",
        BARE,
        at(
            VICTIM,
            "ip link add fault type veth peer name fault1; ip link set fault up; ip link set fault1 up\n"
            "ip rule add pref 99 from $V_ADDR to $P_ADDR lookup 99; ip route add default dev fault table 99",
            "ip rule del pref 99; ip link del fault",
        ),
        expect=LINK_OUT,
    ),
)
