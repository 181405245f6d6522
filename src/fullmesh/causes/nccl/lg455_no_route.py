"""NCCL: this node has no route to a peer

NCCL's connection to {peer} {port_note} failed: {reason}. If the job ran before, an interface of this
node went down, or lost its address.

**Place:** the node of this log

**Prove:** run `ip route get {peer}` and `ip -brief address` on this node, or ./fullmesh diagnose -i
INVENTORY

**Fix:** Reconnect the cable or switch the interface on. If the address or the route is missing:
./fullmesh apply -i INVENTORY --tags network.

**Source:** recorded: NCCL 2.28.9, with an interface that was switched off during an all-reduce
"""

from __future__ import annotations

from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, RecordedLog
from fullmesh.causes.nccl.patterns import build_connect_patterns, derive_nccl_retry

LINK_LOCAL = ("169.254.", "fe80:")  # LG-429


def derive_unreachable_peer(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Add the note about the port, unless the address has no route by design."""
    if fields["peer"].startswith(LINK_LOCAL):
        return None
    return derive_nccl_retry(fields, options)


CAUSE = LogCause(
    "LG-455",
    __doc__,
    looks=(
        (
            "node2:1464:1481 [0] misc/socket.cc:596 NCCL WARN socketStartConnect: connect to "
            "192.0.2.1<39703> failed : Network is unreachable"
        ),
    ),
    patterns=build_connect_patterns("(?P<reason>Network is (?:unreachable|down)|Host is down)"),
    key=("peer", "reason"),
    derive=derive_unreachable_peer,
    weight=76,
    recorded=(
        RecordedLog(
            "the link of node 2 goes down during an all-reduce",
            (
                "[2026-11-27 13:47:14] node2:1464:1481 [0] misc/socket.cc:596 NCCL WARN socketStartConnect: "
                "connect to 192.0.2.1<39703> failed : Network is unreachable\n"
                "[rank1]:[E1127 13:47:15.484350034 ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog caught "
                "collective operation timeout: WorkNCCL(SeqNum=108, OpType=ALLREDUCE, NumelIn=4194304, "
                "NumelOut=4194304, Timeout(ms)=20000) ran for 20099 milliseconds before timing out.\n"
                "[rank1]:[E1127 13:47:15.484470862 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) "
                "Rank 1]  failure detected by watchdog at work sequence id: 108 PG status: last enqueued "
                "work: 108, last completed work: 107\n"
                "[2026-11-27 13:47:15] node2:1464:1481 [0] misc/socket.cc:596 NCCL WARN socketStartConnect: "
                "connect to 192.0.2.1<39703> failed : Network is unreachable\n"
                "[rank1]:[E1127 13:47:18.183069426 ProcessGroupNCCL.cpp:733] Stack trace of the failed "
                "collective: \n"
                "#0 all_reduce from /home/user/venv/torch/distributed/distributed_c10d.py:3068\n"
            ),
            folded=("LG-415",),
        ),
    ),
)
