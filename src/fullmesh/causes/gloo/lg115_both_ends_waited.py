"""Gloo: both ends waited, so the packets between them are dropped

Every rank with a log waited for a data connection that was neither accepted nor rejected. Packets
to the data ports are silently dropped (or a rank without a log never connected).

**Place:** the node with the lower address: with Gloo the higher IP always connects to the lower one

**Prove:** ./fullmesh verify -i INVENTORY (check L2 tries every link in both directions: VC-201)

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the data ports and opens them to
the peers). In a cloud, also open the data range in the security group, in both directions.

**Source:** recorded: nft drop on the data range, timeout 4 s, both ends end after 20 s with the
same line
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import LogCause, LogEvidence, LogFinding, Severity


def find_mutual_waits(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find the passive end's line in the logs of several ranks, if no log shows a cause."""
    if any(finding.severity == Severity.CAUSE for finding in evidence.findings):
        return
    waited = [finding for finding in evidence.findings if finding.code == "LG-105"]
    lines = {line.file: line for finding in waited for line in finding.evidence}
    if len(lines) > 1:
        yield CAUSE.make_finding({}, list(lines.values()))


CAUSE = LogCause(
    "LG-115",
    __doc__,
    find=find_mutual_waits,
    is_last_resort=True,
    weight=60,
)
