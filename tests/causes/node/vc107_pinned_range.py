"""Cases of VC-107."""

from __future__ import annotations

from verify_changes import facts

from causes.faults import TUNED, Fault, set_sysctl

VERIFICATION = {
    "no pin": lambda s: facts(s)["sysctls"].update(port_range="32768\t60999"),
}
FAULTS = (
    Fault(
        "range-drift",
        TUNED,
        set_sysctl("net.ipv4.ip_local_port_range=32768 60999"),
        expect={"port": "32768-60999"},
    ),
)
