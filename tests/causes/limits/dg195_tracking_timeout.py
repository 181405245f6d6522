"""Cases of DG-195."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import NEW, Change, add_rule, change_sysctl, combine, replace_firewalld
from causes.faults import TUNED, Fault, set_sysctl

KEY = "net.netfilter.nf_conntrack_tcp_timeout_established"
CHANGES = {
    "short timeout": Change(
        UB, combine(add_rule("states", NEW, {"accept": None}), change_sysctl(KEY, "60"))
    )
}
QUIET = {
    "the default": combine(add_rule("states", NEW, {"accept": None}), change_sysctl(KEY, "432000")),
    "a short timeout without rules about connections": combine(
        replace_firewalld, change_sysctl(KEY, "60")
    ),
}
FAULTS = (Fault("tracking-timeout", TUNED, set_sysctl(f"{KEY}=60")),)
