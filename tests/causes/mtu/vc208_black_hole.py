"""Cases of VC-208."""

from __future__ import annotations

from records import UBUNTU1 as UB
from verify_changes import verdict

from causes.faults import ALL, BARE, Fault, add_rule_between, make_step

# NICs do not split this data: without that, no large packet would leave as one (faults.md 37).
NO_OFFLOAD = """
python3 -c "
import array, fcntl, socket, struct
s = socket.socket()
for command in (0x1f, 0x24):
    held = array.array('B', struct.pack('II', command, {on}))
    fcntl.ioctl(s, 0x8946, struct.pack('16sP', b'eth1', held.buffer_info()[0]))
"
"""


VERIFICATION = {
    "mtu hole": verdict("mtu_black_hole"),
}
RECORDED = {"mtu": UB}
FAULTS = (
    Fault(
        "mtu",
        BARE,
        add_rule_between("meta length gt 1400 drop", "V_CABLE", "P_CABLE"),
        expect={"port": ""},
    ),
    Fault(
        "mtu",
        BARE,
        make_step(
            ALL,
            NO_OFFLOAD.format(on=0) + "ip link set eth1 mtu 9000",
            NO_OFFLOAD.format(on=1) + "ip link set eth1 mtu 1500",
        ),
        "jumbo",
    ),
)
