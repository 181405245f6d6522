"""Cases of VC-108."""

from __future__ import annotations

from verify_changes import facts

from causes.faults import TUNED, Fault, set_sysctl

VERIFICATION = {
    "range reserved": lambda s: facts(s)["sysctls"].update(reserved_ports="29400,50000-60000"),
}
FAULTS = (
    Fault("range-reserved", TUNED, set_sysctl("net.ipv4.ip_local_reserved_ports=$FIRST-$LAST")),
)
