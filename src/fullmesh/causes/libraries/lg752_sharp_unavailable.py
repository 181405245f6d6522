"""SHARP: NCCL gets no job from the Aggregation Manager

NCCL's CollNet cannot use SHARP ({detail}). The Aggregation Manager (sharp_am) does not run or cannot
be reached, the switches have no SHARP or no resources for another job, or a rank's port is on
another fabric. If NCCL continues, it uses the point-to-point network instead.

**Place:** sharp_am on the node of the subnet manager, and the InfiniBand switches

**Prove:** on the node of the subnet manager, run `systemctl status sharp_am` and read
/var/log/sharp_am.log. Then run `sharp_hello` on a node of the job

**Fix:** Start sharp_am where the master subnet manager runs, and end old SHARP jobs. Or leave SHARP
off: unset NCCL_COLLNET_ENABLE and NCCL_ALGO.

**Source:** NVIDIA/nccl#1425, #1460, #1050, Mellanox/nccl-rdma-sharp-plugins#151
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-752",
    __doc__,
    examples=(
        (
            "n1:1047884:1048148 [7] sharp_plugin.c:320 NCCL WARN NET/IB : SHARP coll init error: "
            "Cannot create SHARP job(-11)"
        ),
        "[n1:0:3745196 unique id 9370583446459220315] ERROR Job error in sharp_get_job_data_len.",
        "sharp_am[720665]: Local Port validation failed. error: FabricProvider must bind to port with master SM",
        (
            "n1:24972:25066 [3] sharp_plugin.c:302 NCCL WARN SHARP group create: Streaming Tree lock "
            "failed (-18)"
        ),
    ),
    patterns=(
        Pattern("SHARP coll init error", r"(?P<detail>SHARP coll init error: .{3,60})"),
        Pattern("SHARP group create", r"WARN (?P<detail>SHARP group create: .{3,60})"),
        Pattern("sharp_", r"ERROR (?P<detail>.{0,60}\bsharp_(?:get|create|coll)\w{3,30}.{0,60})"),
        Pattern("sharp_am", r"sharp_am\[\d{1,9}\]: (?P<detail>.{0,40}failed\. error: .{3,60})"),
        Pattern(
            "Failed to connect to Aggregation Manager",
            r"(?P<detail>Failed to connect to Aggregation Manager)",
        ),
    ),
    survivable=True,
    yields=True,
    weight=72,
)
