"""Cases of HG-161."""

from __future__ import annotations

from hang_records import TRAIN, sends

from causes.job_faults import LARGE_STEPS, JobFault

JOBS = {
    "network": [("HG-161", (0, 1), f"{TRAIN}:13")],
    "gpu_link": [("HG-161", (0, 1), f"{TRAIN}:23")],
    "gpu_link_one_out": [("HG-161", (1,), f"{TRAIN}:23")],  # only rank 0 has received all data
}
JOB_CHANGES = {
    "NCCL: a send that does not arrive": (["HG-161"], "network", sends(True)),
}
LAB_JOBS = {
    "cable": (
        "HG-161",
        (0, 1),
        "no packets arrive between el1 and ubuntu1, in either direction",
        "el1 -> ubuntu1 (10.78.",
    ),
    "one_way": (
        "HG-161",
        (0, 1),
        "none comes out: no packets from el1 arrive at ubuntu1",
        "bytes unacknowledged, sent again",
    ),
}
JOB_FAULTS = (
    JobFault(
        "cable",
        "the cluster's cable is pulled in the middle of an all_reduce",
        LARGE_STEPS,
        "HG-161",
        (0, 1),
        "dist.all_reduce(big)",
        pulls=True,
        record=True,
        expected=(
            "no packets",
            "carrier",
            "eth1",
        ),  # in both directions, unless one side had just sent all of its data
    ),
    JobFault(
        "one_way",
        "nft drops what comes from one peer, in the middle of an all_reduce",
        LARGE_STEPS,
        "HG-161",
        (0, 1),
        "dist.all_reduce(big)",
        breaks="nft add table inet hangs; nft 'add chain inet hangs i {type filter hook input priority -300;}'; "
        "nft add rule inet hangs i iifname eth1 drop",
        undo="nft delete table inet hangs",
        expected=("no packets from el1 arrive at ubuntu1", "el1 -> ubuntu1"),
        record=True,
    ),
)
