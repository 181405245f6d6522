"""EFA: the NCCL plugin is missing, but the job asks for EFA

The job asks for EFA ({detail}), but NCCL found no libnccl-net plugin. It uses plain sockets or
fails.

**Place:** the node of this log

**Prove:** run `ldconfig -p | grep nccl-net` and `fi_info -p efa`. With NCCL_DEBUG=INFO, the log
must contain NET/OFI.

**Fix:** Install an aws-ofi-nccl that matches the NCCL that torch loads, and add its folder to
LD_LIBRARY_PATH.

**Source:** read: nccl plugin_open.cc:97-128, aws/aws-ofi-nccl
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import LogCause, LogEvidence, LogFinding, RecordedLog
from fullmesh.causes.nccl.patterns import EFA, OFI


def find_unused_efa(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find jobs with settings of EFA but without the plugin."""
    wanted = evidence.facts.of("efa")
    no_plugin = any(finding.code == "LG-901" for finding in evidence.findings)
    if wanted and no_plugin and not evidence.facts.of("ofi"):
        yield CAUSE.make_finding({"detail": wanted[0][0][0]}, [line for _, line in wanted])


CAUSE = LogCause(
    "LG-420",
    __doc__,
    find=find_unused_efa,
    facts=(*EFA, OFI),
    replaces=("LG-901",),
    weight=77,
    recorded=(
        RecordedLog(
            "efa without plugin",
            (
                "n:1:2 [0] NCCL INFO FI_PROVIDER set by environment to efa\n"
                "n:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so."
            ),
        ),
    ),
)
