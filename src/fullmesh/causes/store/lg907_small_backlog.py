"""Harmless but slow: the listen backlog (somaxconn) is small

somaxconn is {value}. If there are more ranks than that, the start takes many times longer.

**Prove:** run `sysctl net.core.somaxconn` and `nstat -az TcpExtListenOverflows`

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning.

**Source:** measured: somaxconn 1 and 48 ranks, 9.4 s against 0.86 s
"""

from __future__ import annotations

from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog, Severity

OLD_DEFAULT = 128  # of the kernel, enough for most


def derive_low_somaxconn(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Return the fields if somaxconn is below a small cluster's world size."""
    return fields if int(fields["value"]) < OLD_DEFAULT else None


CAUSE = LogCause(
    "LG-907",
    __doc__,
    examples=("[W socket.cpp:464] [c10d] The listen backlog is capped: somaxconn is 1",),
    patterns=(Pattern("somaxconn", r"somaxconn (?:is|=) (?P<value>\d{1,9})"),),
    severity=Severity.HARMLESS,
    derive=derive_low_somaxconn,
    recorded=(
        RecordedLog(
            "somaxconn",
            "[W] listen backlog: somaxconn is 1",
            heads=(),
            harmless=("LG-907",),
        ),
    ),
)
