"""Store: the master address or port differs between the nodes

The ranks look for the store at different addresses: {places}.

**Place:** the node whose MASTER_ADDR or MASTER_PORT differs

**Prove:** on each node: env | grep ^MASTER_

**Fix:** ./fullmesh apply -i INVENTORY --tags launch (one environment for all nodes).

**Source:** measured
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, LogEvidence, LogFinding

TWO, RENDEZVOUS_PORT = 2, "29400"


def find_different_ports(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find two logs that look for one store at two ports."""
    stores = [finding for finding in evidence.findings if finding.code == "LG-202"]
    for one, other in itertools.permutations(stores, 2):
        ports = {one.fields["port"], other.fields["port"]}
        same_host = one.fields["host"] == other.fields["host"]
        apart = {e.file for e in one.evidence}.isdisjoint(e.file for e in other.evidence)
        if same_host and apart and len(ports) == TWO and RENDEZVOUS_PORT not in ports:
            places = " and ".join(f"{f.fields['host']}:{f.fields['port']}" for f in (one, other))
            yield CAUSE.make_finding({"places": places}, [one.evidence[0], other.evidence[0]])
            return


CAUSE = LogCause(
    "LG-209",
    __doc__,
    find=find_different_ports,
    explains=(Explains(("LG-201", "LG-202")),),
    weight=80,
)
