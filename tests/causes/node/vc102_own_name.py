"""Cases of VC-102."""

from __future__ import annotations

from verify_changes import facts

from causes.faults import BARE, MASTER, Fault, edited, hosts

VERIFICATION = {
    "127.0.1.1": lambda s: facts(s)["names"].update(own=["127.0.1.1"]),
    "own name unknown": lambda s: facts(s)["names"].update(own=[]),
}
FAULTS = (
    Fault("own-loopback", BARE, hosts('sed "/$V_HOST/d" $OLD; echo "127.0.1.1 $V_HOST"')),
    # systemd's nss-myhostname would find a name that no file has
    Fault(
        "own-unknown",
        BARE,
        hosts('sed "/$V_HOST/d" $OLD')
        + edited(
            "/etc/nsswitch.conf",
            "sed 's/^hosts:.*/hosts: files/' /run/fault_etc_nsswitch.conf > /etc/nsswitch.conf",
        ),
        victim=MASTER,
    ),
)
