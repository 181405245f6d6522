"""Cases of DG-143."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, setting, together

CHANGES = {
    "conntrack": Change(
        UB,
        together(
            setting("net.netfilter.nf_conntrack_max", "65536"),
            setting("net.netfilter.nf_conntrack_count", "65500"),
        ),
    ),
}
