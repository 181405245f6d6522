"""torch's own NCCL and the system's are different versions (warning)

torch's wheels include their own NCCL (pytorch#122571). nccl-tests use the system's, so their
figures may differ from those of jobs.

**Prove:** ldconfig -p | grep nccl && python -c 'import torch; print(torch.cuda.nccl.version())'

**Fix:** Set nccl_version to torch's version, or consider the difference when you compare figures.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.model import ClusterObservations


def rule_two_nccls(seen: ClusterObservations) -> Iterator[Finding]:
    """Report two versions of NCCL: torch's wheels have their own (pytorch#122571), other programs use the system's."""
    both = {}
    for name in seen.plan["nodes"]:
        own = str(seen.facts(name).get("versions", {}).get("torch_nccl", ""))
        system = str(seen.nodes.get(name, {}).get("node", {}).get("nccl", {}).get("version", ""))
        if own and system and own != system:
            both[name] = (system, own)
    if both:
        first = next(iter(both))
        system, own = both[first]
        yield Finding(
            "VC-118",
            "L1",
            f"torch includes NCCL {own} and the system has {system} ({join_names(list(both))}): torch's jobs use the "
            "first, nccl-tests and MPI programs the second",
            node=first,
            seen=system,
            expected=own,
            fix=f"nccl_version: {own}, if the repository has it",
            severity=WARNING,
        )


CAUSE = Cause("VC-118", __doc__, find=rule_two_nccls, severity=WARNING)
