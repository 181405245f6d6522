"""Cases of EF-103."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, add_efa

CHANGES = {
    "efa provider": Change(
        UB, add_efa(libfabric={"fi_info": "/usr/bin/fi_info", "rc": 61, "said": "fi_getinfo: -61"})
    ),
}
