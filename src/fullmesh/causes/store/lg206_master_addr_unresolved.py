"""Store: MASTER_ADDR cannot be resolved

The name {host} cannot be resolved ({reason}).

**Place:** the node of this log

**Prove:** on that node: getent ahosts {host}, or run ./fullmesh verify -i INVENTORY (VC-101)

**Fix:** ./fullmesh apply -i INVENTORY --tags network (writes every peer into /etc/hosts).

**Source:** measured: gai error -3, the timeout stretches up to 2.5 times, modelscope/ms-swift#6368
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    ExplainOptions,
    Fields,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
)
from fullmesh.causes.store.patterns import TARGET, is_loopback_host

STORES = ("LG-202", "LG-203", "LG-204")
LOOKUPS = 3  # of a name without a connection attempt, so it does not resolve
UNKNOWN_NAME = ("-2", "-3")  # other errors mean that the name has addresses of another kind


def derive_lookup_failure(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Return the fields of a relevant lookup failure. Many hosts have no IPv6 line for localhost."""
    host = fields["host"]
    return None if is_loopback_host(host) else {**fields, "host": host or "of the store's node"}


def find_unresolved_names(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find names that do not resolve although only the IPv6 lookup failed.

    torch 2.13 prints the IPv6 failure only, even if IPv4 fails as well. A dropped attempt causes one lookup, and a
    rejected one logs an errno. An unknown name causes many (recorded: 6 lookups in 8 s), or the log ends after it.
    """
    findings = evidence.findings
    if any(finding.code in ("LG-205", "LG-206") for finding in findings):
        return
    unresolved = {f.fields["host"]: f for f in findings if f.code == "LG-905"}
    stores = {f.fields.get("host", "") for f in findings if f.code in STORES}
    for host, tried in unresolved.items():
        last = evidence.last.get(tried.last[0])
        if host in stores and tried.count >= LOOKUPS:
            reason = "unresolved up again and again"
        elif len(findings) == len(unresolved) and last and last.line == tried.last[1]:
            reason = "the log ends after a failed lookup"
        else:
            continue
        if not is_loopback_host(host) and tried.fields["reason"].startswith(UNKNOWN_NAME):
            yield LogFinding(CAUSE, {"host": host, "reason": reason}, tried.evidence, tried.count)


CAUSE = LogCause(
    "LG-206",
    __doc__,
    find=find_unresolved_names,
    examples=(
        (
            "[W socket.cpp:601] [c10d] The IPv4 network addresses of (node1, 29500) cannot be "
            "retrieved (gai error: -3 - Temporary failure in name resolution)."
        ),
    ),
    patterns=(
        Pattern(
            "cannot be retrieved (gai error",
            (
                rf"The (?:IPv4 )?network addresses of {TARGET} cannot be retrieved \(gai error: "
                rf"(?P<reason>-?\d+ - [^)]{{1,80}})"
            ),
        ),
        Pattern(
            "gai error: -",
            r"(?<!retrieved \()gai error: (?P<reason>-\d+ - [^)]{1,80})(?P<host>)",
        ),
        # from torch 2.4 on, after an IPv6 and an IPv4 lookup without an address
        Pattern(
            "(errno: 22 - Invalid argument)",
            rf"failed to connect to {TARGET} (?P<reason>\(errno: 22 - Invalid argument\))",
        ),
        # torch up to 1.x
        Pattern(
            "host not found: ",
            r"ValueError: host not found: (?P<reason>[^\n]{1,80})(?P<host>)",
        ),
    ),
    explains=(Explains(("LG-201", "LG-202", "LG-203", "LG-205", "LG-210", "LG-302", "LG-316")),),
    key=("host",),
    derive=derive_lookup_failure,
    weight=87,
    recorded=(
        RecordedLog(
            "name",
            (
                "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot "
                "be retrieved (gai error: -3 - Temporary failure in name resolution).\n"
                "[W socket.cpp:601] [c10d] The IPv4 network addresses of (node1, 29500) cannot "
                "be retrieved (gai error: -3 - Temporary failure in name resolution).\n"
                "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms "
                "while trying to connect to (node1, 29500)."
            ),
            folded=("LG-202",),
            harmless=("LG-905",),
        ),
        RecordedLog(
            "an unknown master, old torch",
            "ValueError: host not found: Name or service not known",
        ),
    ),
)
