"""Cases of VC-102."""

from __future__ import annotations

from verify_changes import facts

from causes.faults import BARE, MASTER, Fault, edit_file, edit_hosts

VERIFICATION = {
    "127.0.1.1": lambda s: facts(s)["names"].update(own=["127.0.1.1"]),
    "own name unknown": lambda s: facts(s)["names"].update(own=[]),
}
FAULTS = (
    Fault("own-loopback", BARE, edit_hosts('sed "/$V_HOST/d" $OLD; echo "127.0.1.1 $V_HOST"')),
    # systemd's nss-myhostname would resolve a name that is in no file
    Fault(
        "own-unknown",
        BARE,
        edit_hosts('sed "/$V_HOST/d" $OLD')
        + edit_file(
            "/etc/nsswitch.conf",
            "sed 's/^hosts:.*/hosts: files/' /run/fault_etc_nsswitch.conf > /etc/nsswitch.conf",
        ),
        victim=MASTER,
    ),
)
