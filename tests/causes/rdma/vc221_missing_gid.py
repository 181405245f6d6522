"""Cases of VC-221."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import put, together
from causes.rdma import add_rails, make_port, make_try, tried, warn

CHANGES = {
    "a twin without an address": warn(
        UB,
        together(
            add_rails,
            put("rdma", [make_port(1, 12), make_port(2, 12, gids=("fe80::2",))], UB),
        ),
    ),
    "a GID that is gone": warn(
        UB, tried((UB, make_try(UB, 1, own={"step": "gid", "count": 0}, peer={"count": 0})))
    ),
    "a GID of RoCE v1 only": warn(
        UB,
        tried((UB, make_try(UB, 1, own={"step": "gid_type", "error": "IB/RoCE v1", "count": 0}))),
    ),
}
