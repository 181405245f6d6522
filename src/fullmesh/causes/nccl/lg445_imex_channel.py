"""Multi-node NVLink: the process has no IMEX channel

Memory that several nodes or processes share over NVLink needs an IMEX channel, and this process may
not use one ({detail}). The device file is missing or not in the container, or nvidia-imex does not
run.

**Place:** the node or container of this log

**Prove:** in the job's own environment, run `ls -l /dev/nvidia-caps-imex-channels` and
`nvidia-imex-ctl -N`

**Fix:** Start nvidia-imex on every node of the NVLink domain, create a channel (nvidia-modprobe -i
0:1) and pass it to the container. Without multi-node NVLink, set NCCL_MNNVL_ENABLE=0.

**Source:** NVIDIA/nvbandwidth#39, read: CUDA's cuMemCreate with fabric handles, NCCL's init.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-445",
    __doc__,
    examples=(
        (
            "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression "
            "cuMemCreate(&handle, roundedUpAllocationSize, &prop, 0 ) on node1, rank = 0"
        ),
        (
            "n:1:2 [0] init.cc:5 NCCL WARN MNNVL (cliqueSize 8) is available but not working on "
            "this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels)."
        ),
    ),
    patterns=(
        Pattern(
            "in expression cuMemCreate",
            r"(?P<detail>CUDA_ERROR_NOT_PERMITTED)\] .{0,60}in expression cuMemCreate",
        ),
        Pattern(
            "cuMemCreate failed: ",
            (
                r"(?P<detail>cuMemCreate failed: (?:800|operation not "
                r"permitted|CUDA_ERROR_NOT_PERMITTED))"
            ),
        ),
        Pattern(
            "is available but not working on this system",
            r"(?P<detail>MNNVL \(cliqueSize \d{1,6}\) is available but not working)",
        ),
        Pattern(
            "cuMemCreate(",
            r"cuMemCreate\([^()]{0,80}\bfabric\w{0,20}[^()]{0,20}\).{0,40}(?P<detail>operation not permitted)",
        ),
        Pattern("Cuda failure", r"(?P<detail>Cuda failure 800) 'operation not permitted'"),
    ),
    weight=88,
)
