"""Cases of VC-108."""

from __future__ import annotations

from causes.faults import TUNED, Fault, sysctl

FAULTS = (Fault("range-reserved", TUNED, sysctl("net.ipv4.ip_local_reserved_ports=$FIRST-$LAST")),)
