"""Cases of DG-143."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, change_sysctl, combine

CHANGES = {
    "conntrack": Change(
        UB,
        combine(
            change_sysctl("net.netfilter.nf_conntrack_max", "65536"),
            change_sysctl("net.netfilter.nf_conntrack_count", "65500"),
        ),
    ),
}
