"""libfabric finds no provider

libfabric has no provider that the program can use ({detail}). Its plugins are not in
FI_PROVIDER_PATH, FI_PROVIDER names one that is not installed, or the container does not have the
device.

**Place:** the node or container of this log

**Prove:** in the job's own environment: fi_info -l; env | grep ^FI_; ls /dev/infiniband

**Fix:** Set FI_PROVIDER_PATH to the directory of the plugins (for oneCCL, that of Intel MPI), or
FI_PROVIDER=tcp. For EFA, give the container exactly the devices of the EFA plugin.

**Source:** llm-d/llm-d#2270, read: libfabric's fi_getinfo(3)
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-744",
    __doc__,
    examples=(
        "2026:08:13-09:11:02:(  412) |CCL_ERROR| atl_ofi_helper.cpp:1118 fi_getinfo error: ret -61, providers 0",
    ),
    patterns=(
        Pattern(
            "fi_getinfo",
            (
                r"(?<!NET/OFI )(?P<detail>fi_getinfo(?:\(\))?:? (?:error: ret |failed: |returned )?-61"
                r"|fi_getinfo: .{0,40}No data available)"
            ),
        ),
        Pattern(
            "failed to initialize ATL",
            r"init_transport: .{0,40}(?P<detail>failed to initialize ATL)",
        ),
        # MPICH and Intel MPI
        Pattern("OFI ", r"(?P<detail>OFI (?:addrinfo|fi_getinfo)\(\) failed)"),
    ),
    explains=(Explains(("LG-304",)),),
    weight=85,
    recorded=(
        RecordedLog(
            "oneCCL on Intel GPUs",
            (
                "2026:08:13-09:11:02:(  412) |CCL_ERROR| atl_ofi_helper.cpp:1118 fi_getinfo error: "
                "ret -61, providers 0\n"
                "RuntimeError: oneCCL: atl_ofi_comm.cpp:232 init_transport: EXCEPTION: failed to "
                "initialize ATL"
            ),
        ),
    ),
)
