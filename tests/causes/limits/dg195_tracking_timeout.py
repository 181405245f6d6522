"""Cases of DG-195."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import NEW, Change, only_table, rule, setting, together
from causes.faults import TUNED, Fault, sysctl

KEY = "net.netfilter.nf_conntrack_tcp_timeout_established"
CHANGES = {
    "short timeout": Change(UB, together(rule("states", NEW, {"accept": None}), setting(KEY, "60")))
}
QUIET = {
    "the default": together(rule("states", NEW, {"accept": None}), setting(KEY, "432000")),
    "a short timeout without rules about connections": together(only_table, setting(KEY, "60")),
}
FAULTS = (Fault("tracking-timeout", TUNED, sysctl(f"{KEY}=60")),)
