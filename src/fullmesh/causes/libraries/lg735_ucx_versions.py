"""UCX: a program runs with an older UCX than it was built for

A program was built for UCX {wanted} and loaded UCX {present}, and UCX then failed. Two versions are
installed, and the loader finds the wrong one.

**Place:** the node or container of this log

**Prove:** ucx_info -v && ldconfig -p | grep libucp && echo $LD_LIBRARY_PATH

**Fix:** Keep one UCX in the environment: remove the old path from LD_LIBRARY_PATH, or remove the
system's package, or install the version that the program was built for, the same on all nodes.

**Source:** sgl-project/sglang#5709, openucx/ucx#6675, read: UCX's ucp_context.c (the warning alone
is often harmless)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
)

VERSIONS = Fact(
    "UCX versions",
    Pattern(
        "version is incompatible",
        (
            r"UCP (?:API )?version is incompatible[,:] required:? (?:>= )?(?P<wanted>\d+\.\d+),?"
            r" actual:? (?P<present>\d+\.\d+)"
        ),
    ),
)
FAILED = tuple(
    Fact("UCX failed", pattern)
    for pattern in (
        Pattern("UCX  ERROR"),
        Pattern("NIXL_ERR_", "NIXL_ERR_BACKEND"),
        Pattern("address version mismatch", r"UCX +ERROR +address version mismatch"),
    )
)


def find_versions(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find the warning about versions together with an error of UCX or a library that uses it."""
    versions, failed = map(evidence.facts.of, ("UCX versions", "UCX failed"))
    if versions and failed:
        (wanted, present), line = versions[0]
        fields = {"wanted": wanted, "present": present}
        yield CAUSE.make_finding(fields, [line, failed[0][1]])


CAUSE = LogCause(
    "LG-735",
    __doc__,
    find=find_versions,
    facts=(VERSIONS, *FAILED),
    explains=(Explains(("LG-738",)),),
    weight=74,
    recorded=(
        RecordedLog(
            "an old UCX under NIXL",
            (
                "[1745994234.385141] [n1:711260:0]     ucp_context.c:1774 UCX  WARN  UCP version is "
                "incompatible, required: 1.18, actual: 1.12 (release 1)\n"
                "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND"
            ),
            folded=("LG-738",),
        ),
        RecordedLog(
            "newer wording",
            (
                "[1748179345.114806] [n1:3019122:0]     ucp_context.c:2257 UCX  WARN  UCP API version "
                "is incompatible: required >= 1.20, actual 1.18.0 (loaded from /lib/libucp.so.0)\n"
                "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND"
            ),
            folded=("LG-738",),
        ),
        RecordedLog(
            "the warning alone",
            (
                "[1745994234.385141] [n1:711260:0]     ucp_context.c:1774 UCX  WARN  UCP version is "
                "incompatible, required: 1.18, actual: 1.12 (release 1)\nBackend UCX was instantiated"
            ),
            heads=(),
        ),
    ),
)
